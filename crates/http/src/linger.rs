//! Reading what is left of a request's body after its answer.
//!
//! A connection that is closed with unread input is reset, and a reset can take
//! the answer with it: the client would see a broken pipe in place of a 413.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody},
    extract::Request,
    middleware::Next,
    response::Response,
};
use bytes::{Buf as _, Bytes};
use http::header;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};

/// How much more is read, and for how long; whoever sends more is cut off.
const LIMIT: usize = 64 << 20;
const TIME: Duration = Duration::from_secs(5);

/// The layer of every route.
pub(crate) async fn linger(request: Request, next: Next) -> Response {
    // Who expects a 100 sends nothing more, unless it is asked for.
    let waits = request.headers().contains_key(header::EXPECT);
    let request = request.map(|body| {
        if waits || body.is_end_stream() {
            body
        } else {
            Body::new(Lingering(Some(body)))
        }
    });
    next.run(request).await
}

/// A body whose rest is read when nobody wants it.
struct Lingering(Option<Body>);

impl HttpBody for Lingering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let frame = Pin::new(body).poll_frame(context);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.0 = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Some(body) => body.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if let Some(body) = self.0.take().filter(|body| !body.is_end_stream()) {
            tokio::spawn(tokio::time::timeout(TIME, pass_over(body)));
        }
    }
}

async fn pass_over(mut body: Body) {
    let mut left = LIMIT;
    while let Some(Ok(frame)) = body.frame().await {
        let size = frame.data_ref().map_or(0, |data| data.remaining());
        match left.checked_sub(size) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}
