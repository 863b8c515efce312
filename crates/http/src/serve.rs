//! The server: every step of a connection has a limit in time or in size.
//!
//! `axum::serve` installs no timer, and without one hyper's header timeout does
//! nothing; so connections are served here.

mod stall;

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

use stall::StallGuard;

/// Between two tries to accept when the machine has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// What a connection may take.
#[derive(Clone, Debug)]
pub struct ServeLimits {
    /// From a connection's start, or its last answer, to the end of the next
    /// header; so an idle connection lives no longer either.
    pub header_read_timeout: Duration,
    pub max_header_bytes: usize,
    /// How long a client may take none of its answer.
    pub write_timeout: Duration,
    /// More wait in the listener's queue.
    pub max_connections: usize,
    /// How long requests under way may go on after the shutdown began.
    pub drain_timeout: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            header_read_timeout: Duration::from_secs(10),
            max_header_bytes: 32 * 1024,
            write_timeout: Duration::from_secs(60),
            max_connections: 1024,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// Serves until `shutdown` resolves, then until the requests under way have
/// ended or their time is up. A client that goes away drops its handler.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServeLimits,
    shutdown: impl Future<Output = ()>,
) {
    let slots = Arc::new(Semaphore::new(limits.max_connections));
    let connections = TaskTracker::new();
    let finish = CancellationToken::new();
    let abort = CancellationToken::new();
    let accept = async {
        loop {
            // The semaphore is never closed.
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                return;
            };
            let stream = accept(&listener).await;
            let connection = connection(
                stream,
                router.clone(),
                limits.clone(),
                finish.clone(),
                abort.clone(),
            );
            connections.spawn(async move {
                connection.await;
                drop(slot);
            });
        }
    };
    tokio::select! {
        () = accept => {}
        () = shutdown => {}
    }
    drop(listener);
    finish.cancel();
    connections.close();
    info!(
        connections = connections.len(),
        "no more connections are taken"
    );
    if timeout(limits.drain_timeout, connections.wait())
        .await
        .is_err()
    {
        warn!(
            connections = connections.len(),
            "ended requests whose time was up"
        );
        abort.cancel();
        connections.wait().await;
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                warn!("failed to accept a connection: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

async fn connection(
    stream: TcpStream,
    router: Router,
    limits: ServeLimits,
    finish: CancellationToken,
    abort: CancellationToken,
) {
    // Small answers must not wait for the client's acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        debug!("failed to set TCP_NODELAY: {error}");
    }
    let stream = StallGuard::new(stream, limits.write_timeout);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read_timeout)
        .max_header_size(limits.max_header_bytes)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection.with_upgrades());
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = finish.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = abort.cancelled() => return,
            }
        }
    };
    if let Err(error) = ended {
        debug!("a connection ended: {error}");
    }
}
