//! A stream whose first bytes must come in time: HTTP/2 has no limit of its own on the
//! time that a client may take to begin.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// Of the client's connection preface (RFC 9113, 3.4).
const PREFACE_BYTES: usize = 24;

pub(super) struct Begun<S> {
    stream: S,
    /// What is missing of the preface, and until when.
    missing: usize,
    limit: Pin<Box<Sleep>>,
}

impl<S> Begun<S> {
    pub(super) fn within(limit: Duration, stream: S) -> Self {
        Self {
            stream,
            missing: PREFACE_BYTES,
            limit: Box::pin(sleep(limit)),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if self.missing == 0 {
            return read;
        }
        self.missing = (self.missing).saturating_sub(buffer.filled().len() - before);
        if self.missing > 0 && read.is_pending() && self.limit.as_mut().poll(cx).is_ready() {
            // Never polled again: the connection is over with this.
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn who_does_not_begin_is_cut_off() {
        let (mut client, server) = tokio::io::duplex(64);
        client.write_all(b"PRI").await.unwrap();
        let mut server = Begun::within(LIMIT, server);
        let mut read = [0; 24];
        let error = server.read_exact(&mut read).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_begun_may_wait() {
        let (mut client, server) = tokio::io::duplex(64);
        client.write_all(&[0; PREFACE_BYTES]).await.unwrap();
        let mut server = Begun::within(LIMIT, server);
        server.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
        let late = tokio::time::timeout(2 * LIMIT, server.read_u8()).await;
        assert!(late.is_err(), "it waits");
    }
}
