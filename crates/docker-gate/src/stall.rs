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
