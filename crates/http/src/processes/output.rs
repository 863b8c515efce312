//! What a process prints, as server-sent events.

use axum::{
    extract::State,
    response::{Response, sse::Event as Frame},
};
use futures::stream;
use http::HeaderMap;
use sandbox_core::TenantId;
use sandbox_execution::{Attached, Item, ProcessEvent};
use serde::Deserialize;
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::{ProcessResponse, find};
use crate::{
    AppState,
    caller::Caller,
    extract::{ProcessPath, Query},
    problem::{ApiResult, Problem},
    sse,
};

/// From where to read, and how long.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OutputQuery {
    /// The token's tenant when it is absent.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// The number of the last event that is known; 0, the default, is none. The header
    /// `Last-Event-ID` does the same.
    after: Option<u64>,
    /// Wait for more until the process ends, the default; `false` ends with what is there.
    #[serde(default = "yes")]
    #[param(default = true)]
    follow: bool,
}

fn yes() -> bool {
    true
}

/// A server-sent event of a process.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is the shape of what the stream's frames say")]
pub(crate) struct ProcessEventResponse {
    /// The event's number, from 1.
    #[schema(example = "1")]
    id: String,
    /// `stdout`, `stderr`, `gap`, and last `exit`.
    #[schema(example = "stdout")]
    event: String,
    /// JSON: of output `{text}`, of `gap` `{last}`, of `exit` the process.
    #[schema(example = "{\"text\":\"ready\\n\"}")]
    data: String,
}

/// Read what a process prints
///
/// Server-sent events, each with its number, from any point that is still kept: the last MiB or
/// so. A `gap` event tells of those that are not. Whoever reads too slowly slows the process, for
/// a minute, and is then left behind.
#[utoipa::path(
    get, path = "/processes/{process_id}/output", tag = "processes",
    params(("process_id" = String, Path, format = "uuid"), OutputQuery),
    responses(
        (status = 200, description = "The events", body = ProcessEventResponse, content_type = "text/event-stream"),
        (status = "default", response = Problem),
    ),
)]
pub(crate) async fn process_output(
    caller: Caller,
    State(state): State<AppState>,
    ProcessPath(id): ProcessPath,
    Query(query): Query<OutputQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let process = find(&state, &caller, query.tenant_id, &id)?;
    let after = sse::after(query.after, &headers)?;
    let attached = state.processes.attach(&process, after)?;
    Ok(sse::response(stream::unfold(
        attached,
        move |mut attached| async move {
            if !query.follow && attached.is_up_to_date() {
                return None;
            }
            let item = attached.next().await?;
            Some((frame(&mut attached, item), attached))
        },
    )))
}

fn frame(attached: &mut Attached, item: Item<ProcessEvent>) -> Frame {
    let (id, event) = match item {
        Item::Gap { last } => {
            return sse::frame(last, "gap", sse::json(&json!({ "last": last })));
        }
        Item::Event { id, event } => (id, event),
    };
    let (name, text) = match event {
        ProcessEvent::Stdout(data) => ("stdout", attached.stdout_text(&data)),
        ProcessEvent::Stderr(data) => ("stderr", attached.stderr_text(&data)),
        ProcessEvent::Ended => {
            let process = ProcessResponse::from(attached.process().as_ref());
            return sse::frame(id, "exit", sse::json(&process));
        }
    };
    sse::frame(id, name, sse::json(&json!({ "text": text })))
}
