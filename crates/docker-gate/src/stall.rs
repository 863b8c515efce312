//! A stream whose writer waits only so long: a client that takes no answer must not
//! hold a connection to the daemon for ever.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::OwnedSemaphorePermit,
    time::{Instant, Sleep, sleep},
};

/// Set once a connection carries a container's stream, whose reader may pause.
pub type Released = Arc<AtomicBool>;

pub struct StallGuard<S> {
    stream: S,
    limit: Duration,
    released: Released,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Goes where the stream goes, into a tunnel too.
    _slot: OwnedSemaphorePermit,
}

impl<S> StallGuard<S> {
    pub fn new(stream: S, limit: Duration, released: Released, slot: OwnedSemaphorePermit) -> Self {
        Self {
            stream,
            limit,
            released,
            stalled: None,
            _slot: slot,
        }
    }

    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() || self.released.load(Ordering::Relaxed) {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(stalled.as_mut().poll(cx));
        // A second poll after the error must not find a timer that has fired.
        stalled.as_mut().reset(Instant::now() + limit);
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client takes no data",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, data);
        self.watch(cx, written)
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
    use std::sync::Arc;

    use super::*;
    use tokio::{io::AsyncWriteExt as _, sync::Semaphore, time::timeout};

    /// A stream whose other end takes eight bytes and no more.
    fn stalled(limit: Duration, released: &Released) -> StallGuard<tokio::io::DuplexStream> {
        let (stream, other) = tokio::io::duplex(8);
        std::mem::forget(other);
        let slots = Arc::new(Semaphore::new(1));
        let slot = slots.try_acquire_owned().unwrap();
        StallGuard::new(stream, limit, Arc::clone(released), slot)
    }

    #[tokio::test]
    async fn a_client_that_takes_no_answer_is_left() {
        let released = Released::default();
        let mut stream = stalled(Duration::from_millis(50), &released);
        let error = stream.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_stream_may_pause() {
        let released = Released::default();
        released.store(true, Ordering::Relaxed);
        let mut stream = stalled(Duration::from_millis(50), &released);
        let write = stream.write_all(&[0; 100]);
        assert!(timeout(Duration::from_millis(300), write).await.is_err());
    }
}
