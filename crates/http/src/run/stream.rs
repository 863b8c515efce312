//! The events of a run as server-sent events (WHATWG HTML, section 9.2).

use std::{convert::Infallible, time::Duration};

use axum::response::{
    IntoResponse, Response,
    sse::{Event as Frame, KeepAlive, Sse},
};
use futures::stream;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use sandbox_core::Stream;
use sandbox_execution::{Attachment, Event, Execution, Item, Reader};
use serde::Serialize;
use serde_json::json;

use super::{ArtifactResponse, name_language, response::bundles, run_response};
use crate::problem;

/// Proxies close a connection on which nothing comes.
const HEARTBEAT: Duration = Duration::from_secs(15);
const EVENT_STREAM: &str = "text/event-stream";

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

/// Every event after this one, to the last.
pub(crate) fn events(attachment: Attachment, after: u64) -> Response {
    let frames = stream::unfold(attachment.events(after), |mut reader| async move {
        let item = reader.next().await?;
        Some((Ok::<_, Infallible>(frame(&reader, item)), reader))
    });
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

fn frame(reader: &Reader, item: Item<Event>) -> Frame {
    let execution = reader.execution();
    let (id, name, data) = match item {
        Item::Gap { last } => (last, "gap", text(&json!({ "last": last }))),
        Item::Event { id, event } => {
            let (name, data) = named(execution, event);
            (id, name, data)
        }
    };
    Frame::default().id(id.to_string()).event(name).data(data)
}

fn named(execution: &Execution, event: Event) -> (&'static str, String) {
    match event {
        Event::Started => (
            "start",
            text(&json!({
                "execution_id": execution.id(),
                "session_id": execution.session(),
            })),
        ),
        Event::Output { stream, text: data } => {
            let name = match stream {
                Stream::Stdout => "stdout",
                Stream::Stderr => "stderr",
            };
            (name, text(&json!({ "text": data })))
        }
        Event::Display(bundle) => ("display", text(&bundles(&[bundle]).pop())),
        Event::Artifact(artifact) => ("artifact", text(&ArtifactResponse::from(&artifact))),
        Event::Ended => last(execution),
    }
}

fn last(execution: &Execution) -> (&'static str, String) {
    let outcome = execution.outcome();
    match outcome
        .as_deref()
        .map(|done| (&done.result, &done.displayed))
    {
        Some((Ok(report), displayed)) => {
            ("result", text(&run_response(execution, report, displayed)))
        }
        Some((Err(error), _)) => {
            let error = name_language(error.clone(), execution);
            ("error", text(&problem::event(&error, execution.id())))
        }
        None => ("error", "{}".into()),
    }
}

/// JSON has no line breaks of its own, which would end an event's line.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "{}".into())
}
