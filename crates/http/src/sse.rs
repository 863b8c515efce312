//! Server-sent events (WHATWG HTML, section 9.2), of runs and of processes.

use std::{convert::Infallible, time::Duration};

use axum::response::{
    IntoResponse, Response,
    sse::{Event as Frame, KeepAlive, Sse},
};
use futures::Stream;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::Serialize;

use crate::problem::{ApiError, ApiResult};

/// Proxies close a connection on which nothing comes.
const HEARTBEAT: Duration = Duration::from_secs(15);
const EVENT_STREAM: &str = "text/event-stream";
const LAST_EVENT_ID: &str = "last-event-id";

/// Whether the client asks for a stream by `Accept`.
pub(crate) fn accepted(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|kind| kind.split(';').next())
        .any(|kind| kind.trim().eq_ignore_ascii_case(EVENT_STREAM))
}

/// The number of the last event that the client knows; 0 is none.
pub(crate) fn after(named: Option<u64>, headers: &HeaderMap) -> ApiResult<u64> {
    match (named, headers.get(LAST_EVENT_ID)) {
        (Some(after), _) => Ok(after),
        (None, None) => Ok(0),
        (None, Some(value)) => value
            .to_str()
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| ApiError::invalid("`Last-Event-ID` is not the number of an event")),
    }
}

/// One event, with its number and its data as JSON.
pub(crate) fn frame(id: u64, name: &str, data: String) -> Frame {
    Frame::default().id(id.to_string()).event(name).data(data)
}

/// JSON has no line breaks of its own, which would end an event's line.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "{}".into())
}

/// The answer that is these frames.
pub(crate) fn response(frames: impl Stream<Item = Frame> + Send + 'static) -> Response {
    let frames = futures::StreamExt::map(frames, Ok::<_, Infallible>);
    let heartbeat = KeepAlive::new().interval(HEARTBEAT).text("alive");
    let mut response = Sse::new(frames).keep_alive(heartbeat).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // nginx would hold events back.
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}
