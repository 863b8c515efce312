//! Bodies on their way to and from a sandbox: never held up for ever, and ended with it.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use connectrpc::{ConnectError, ErrorCode as Connect};
use futures::future::BoxFuture;
use guest_client::ClientBody;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use sandbox_core::Error;
use sandbox_session::Lease;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::DropGuard;

/// A body of the client's that is broken off when nothing of it comes for so long.
pub(super) struct Arriving {
    /// The guest's connection wants bodies that are `Sync`; nobody else has it.
    body: Mutex<Body>,
    limit: Duration,
    silence: Pin<Box<Sleep>>,
}

impl Arriving {
    pub(super) fn new(body: Body, limit: Duration) -> Self {
        Self {
            body: Mutex::new(body),
            limit,
            silence: Box::pin(sleep(limit)),
        }
    }

    fn body(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As the guest's connection takes it.
    pub(super) fn for_guest(self) -> ClientBody {
        self.map_err(|error| ConnectError::new(Connect::Aborted, error.to_string()))
            .boxed()
    }
}

type Broken = Box<dyn std::error::Error + Send + Sync>;

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let body = self.body.get_mut().unwrap_or_else(PoisonError::into_inner);
        while let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
            // The guest's connection takes many empty frames for an attack, and ends.
            if let Some(Ok(frame)) = &frame
                && frame.data_ref().is_some_and(Bytes::is_empty)
            {
                continue;
            }
            let next = Instant::now() + self.limit;
            self.silence.as_mut().reset(next);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(self.silence.as_mut().poll(context));
        let next = Instant::now() + self.limit;
        self.silence.as_mut().reset(next);
        Poll::Ready(Some(Err("nothing of the body came for too long".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body().size_hint()
    }
}

/// A body out of a sandbox, which is in use as long as it is read and breaks off when
/// the sandbox ends.
pub(super) struct Leased<B> {
    body: B,
    over: BoxFuture<'static, Error>,
    /// Tells that nobody reads it any more.
    _reader: Option<DropGuard>,
}

impl<B> Leased<B> {
    pub(super) fn new(body: B, lease: Arc<Lease>) -> Self {
        Self {
            body,
            over: over(lease),
            _reader: None,
        }
    }

    pub(super) fn until_dropped(mut self, reader: DropGuard) -> Self {
        self._reader = Some(reader);
        self
    }
}

/// Resolves when nothing more comes of the lease, which is held until then.
pub(super) fn over(lease: Arc<Lease>) -> BoxFuture<'static, Error> {
    Box::pin(async move { lease.until_over().await })
}

impl<B> HttpBody for Leased<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<Broken>,
{
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let ended = ready!(self.over.as_mut().poll(context));
        Poll::Ready(Some(Err(ended.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
