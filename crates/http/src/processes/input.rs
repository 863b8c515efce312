//! What a process is given by plain requests: input and signals.

use axum::extract::State;
use http::StatusCode;
use sandbox_core::ErrorCode;
use serde::{Deserialize, Deserializer, de};
use utoipa::{
    ToSchema,
    openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema, Type},
};

use super::{TenantQuery, find, signal};
use crate::{
    AppState,
    caller::Caller,
    extract::{Json, ProcessPath, Query},
    input::Encoding,
    problem::{ApiError, ApiResult, Problem},
};

/// Of one request, or of one message.
pub(super) const MAX_INPUT: usize = 1 << 20;

/// Input for a process.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputBody {
    /// At most 1 MiB.
    #[serde(default)]
    data: String,
    #[serde(default)]
    encoding: Encoding,
    /// Ends its standard input after that; a terminal takes `\u0004` (Ctrl-D) instead.
    #[serde(default)]
    close: bool,
}

/// Write to a process
///
/// Answers when the process has taken it, within 30 seconds; a `timeout` leaves it open how much
/// of it was taken.
#[utoipa::path(
    post, path = "/processes/{process_id}/stdin", tag = "processes",
    params(("process_id" = String, Path, format = "uuid"), TenantQuery),
    request_body = InputBody,
    responses((status = 204, description = "It has taken it"), (status = "default", response = Problem)),
)]
pub(crate) async fn write_process(
    caller: Caller,
    State(state): State<AppState>,
    ProcessPath(id): ProcessPath,
    Query(query): Query<TenantQuery>,
    Json(body): Json<InputBody>,
) -> ApiResult<StatusCode> {
    let process = find(&state, &caller, query.tenant_id, &id)?;
    let data = body.encoding.decode("data", body.data)?;
    if data.len() > MAX_INPUT {
        return Err(ApiError::new(
            ErrorCode::BodyTooLarge,
            format!("`data` is longer than {MAX_INPUT} bytes"),
        ));
    }
    if !data.is_empty() {
        process.write(data.into()).await?;
    }
    if body.close {
        process.close_input().await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// A signal for a process.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalBody {
    /// A name such as `SIGTERM` or `INT`, or a number from 1 to 64.
    #[serde(deserialize_with = "signal_text")]
    #[schema(schema_with = signal_schema)]
    signal: String,
}

/// Send a signal to a process
#[utoipa::path(
    post, path = "/processes/{process_id}/signal", tag = "processes",
    params(("process_id" = String, Path, format = "uuid"), TenantQuery),
    request_body = SignalBody,
    responses((status = 204, description = "Sent"), (status = "default", response = Problem)),
)]
pub(crate) async fn signal_process(
    caller: Caller,
    State(state): State<AppState>,
    ProcessPath(id): ProcessPath,
    Query(query): Query<TenantQuery>,
    Json(body): Json<SignalBody>,
) -> ApiResult<StatusCode> {
    let process = find(&state, &caller, query.tenant_id, &id)?;
    process.signal(signal::number(&body.signal)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) fn signal_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Wire {
        Number(u32),
        Name(String),
    }
    match Wire::deserialize(deserializer) {
        Ok(Wire::Number(number)) => Ok(number.to_string()),
        Ok(Wire::Name(name)) => Ok(name),
        Err(_) => Err(de::Error::custom("a signal is a name or a number")),
    }
}

fn signal_schema() -> Schema {
    let name = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some("^([Ss][Ii][Gg])?[A-Za-z0-9]+$"))
        .examples(["SIGTERM"]);
    let number = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1))
        .maximum(Some(64));
    AnyOfBuilder::new()
        .item(name)
        .item(number)
        .description(Some(
            "A name such as `SIGTERM` or `INT`, or a number from 1 to 64.",
        ))
        .build()
        .into()
}
