//! The events of a run as server-sent events.

use axum::response::{Response, sse::Event as Frame};
use futures::stream;
use sandbox_core::Stream;
use sandbox_execution::{Attachment, Event, Execution, Item, Reader};
use serde_json::json;

use super::{ArtifactResponse, RaisedResponse, name_language, response::bundles, run_response};
use crate::{
    problem,
    sse::{self, json as text},
};

/// Every event after this one, to the last.
pub(crate) fn events(attachment: Attachment, after: u64) -> Response {
    let reader = attachment.events(after);
    sse::response(stream::unfold(reader, |mut reader| async move {
        let item = reader.next().await?;
        Some((frame(&reader, item), reader))
    }))
}

fn frame(reader: &Reader, item: Item<Event>) -> Frame {
    let execution = reader.execution();
    let (id, (name, data)) = match item {
        Item::Gap { last } => (last, ("gap", text(&json!({ "last": last })))),
        Item::Event { id, event } => (id, named(execution, event)),
    };
    sse::frame(id, name, data)
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
        Event::Display(bundle) | Event::Result(bundle) => {
            ("display", text(&bundles(&[bundle]).pop()))
        }
        Event::Raised(raised) => ("exception", text(&RaisedResponse::from(&raised))),
        Event::Artifact(artifact) => ("artifact", text(&ArtifactResponse::from(&artifact))),
        Event::Ended => last(execution),
    }
}

fn last(execution: &Execution) -> (&'static str, String) {
    let outcome = execution.outcome();
    match outcome.as_deref().map(|done| (&done.result, done)) {
        Some((Ok(report), finished)) => {
            ("result", text(&run_response(execution, report, finished)))
        }
        Some((Err(error), _)) => {
            let error = name_language(error.clone(), execution);
            ("error", text(&problem::event(&error, execution.id())))
        }
        None => ("error", "{}".into()),
    }
}
