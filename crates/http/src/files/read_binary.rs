//! POST /read_binary: a file's bytes, streamed as fast as the client takes them.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use guest_client::FileStream;
use http::{HeaderMap, header};
use sandbox_core::{ErrorCode, SessionId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    AppState,
    caller::Caller,
    extract::Json,
    files::{
        range::Range,
        send::{Described, content_type, etag, in_time, open, send},
    },
    problem::{ApiError, ApiResult, Problem},
};

/// Largest file that is sent as JSON, for it is in memory at once.
const MAX_JSON_BYTES: u64 = 32 << 20;

/// A file to send.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadBinaryBody {
    /// Relative to the workspace.
    path: String,
    /// The token's tenant when it is absent.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    #[schema(value_type = String)]
    session_id: SessionId,
}

/// A file in JSON.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReadBinaryResponse {
    path: String,
    content_base64: String,
    size_bytes: u64,
    content_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
}

/// Read a file's bytes
///
/// One `Range` and `If-None-Match` are honoured. With `Accept: application/json` the
/// answer is JSON with base64, of files up to 32 MiB.
#[utoipa::path(
    post, path = "/read_binary", tag = "files",
    request_body = ReadBinaryBody,
    responses(
        (status = 200, description = "The file", content(
            (Vec<u8> = "application/octet-stream"),
            (Vec<u8> = "*/*"),
            (ReadBinaryResponse = "application/json"),
        )),
        (status = 206, description = "The part that `Range` names", content((Vec<u8> = "application/octet-stream"), (Vec<u8> = "*/*"))),
        (status = 304, description = "The client has this version"),
        (status = 416, response = Problem),
        (status = "default", response = Problem),
    ),
)]
pub(crate) async fn read_binary(
    caller: Caller,
    State(state): State<AppState>,
    headers: HeaderMap,
    Json(body): Json<ReadBinaryBody>,
) -> ApiResult<Response> {
    let key = caller.session(body.tenant_id, body.session_id)?;
    let lease = state.sessions.lease(&key).await?;
    if wants_json(&headers) {
        let file = open(&lease, &body.path, Range::All).await?;
        return Ok(Json(in_json(file).await?).into_response());
    }
    send(lease, &body.path, &headers, Described::default()).await
}

fn wants_json(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|kind| kind.split(';').next())
        .any(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

async fn in_json(mut file: FileStream) -> ApiResult<ReadBinaryResponse> {
    let too_large = || {
        ApiError::new(
            ErrorCode::TooLarge,
            format!("the file is larger than {MAX_JSON_BYTES} bytes; read it without JSON"),
        )
    };
    if file.info.size_bytes > MAX_JSON_BYTES {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(data) = in_time(file.next()).await? {
        // It may have grown since its size was taken.
        if (bytes.len() + data.len()) as u64 > MAX_JSON_BYTES {
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(ReadBinaryResponse {
        content_base64: STANDARD.encode(&bytes),
        size_bytes: bytes.len() as u64,
        content_type: content_type(&file.info.path).to_string(),
        etag: etag(&file.info),
        path: file.info.path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_that_names_json_gets_json() {
        let accept = |value: &str| {
            wants_json(&HeaderMap::from_iter([(
                header::ACCEPT,
                value.parse().unwrap(),
            )]))
        };
        assert!(accept("text/html, application/json;q=0.9"));
        assert!(!accept("*/*"));
        assert!(!accept("application/octet-stream"));
    }
}
