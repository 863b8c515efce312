//! A body with which its request goes on.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use sandbox_admission::Place;
use sandbox_http::TrafficCount;

/// It holds the place until it has been answered to its end.
pub(crate) struct Placed<B> {
    pub body: B,
    pub _held: (Place, TrafficCount),
}

impl<B: Body<Data = Bytes> + Unpin> Body for Placed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
