//! The stream of an attached container, both ways.

use std::io;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tracing::debug;

const BUFFER: usize = 64 * 1024;

/// Carries bytes until the container's side ends. The client's end is passed on as
/// the end of the container's standard input, and what it says then still arrives.
pub async fn carry(client: OnUpgrade, daemon: OnUpgrade) {
    let result: io::Result<()> = async {
        let client = client.await.map_err(io::Error::other)?;
        let daemon = daemon.await.map_err(io::Error::other)?;
        join(client, daemon).await
    }
    .await;
    if let Err(error) = result {
        debug!("an attached stream ended: {error}");
    }
}

async fn join(client: Upgraded, daemon: Upgraded) -> io::Result<()> {
    let (mut from_client, mut to_client) = tokio::io::split(TokioIo::new(client));
    let (mut from_daemon, mut to_daemon) = tokio::io::split(TokioIo::new(daemon));
    let outward = copy(&mut from_daemon, &mut to_client);
    let inward = async {
        copy(&mut from_client, &mut to_daemon).await?;
        // Only the other way ends the stream.
        std::future::pending().await
    };
    tokio::select! {
        ended = outward => ended,
        failed = inward => failed,
    }
}

/// Copies until the end, and passes that on. Nothing waits in a buffer here.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
        to.flush().await?;
    }
}
