//! POST /read: lines of a text file.

use axum::extract::State;
use guest_client::messages as guest;
use sandbox_core::{SessionId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    AppState,
    caller::Caller,
    extract::Json,
    problem::{ApiError, ApiResult, Problem},
};

/// Most text that is sent at once; the rest is `truncated`.
const MAX_TEXT_BYTES: u64 = 4 << 20;

/// Lines of a text file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadBody {
    /// Relative to the workspace; `/workspace/...` is the same.
    path: String,
    /// The first line, from 1.
    #[serde(default = "first_line")]
    #[schema(minimum = 1, default = first_line)]
    offset: u64,
    /// How many lines.
    #[serde(default = "line_limit")]
    #[schema(minimum = 1, default = line_limit)]
    limit: u64,
    /// The token's tenant when it is absent.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    #[schema(value_type = String)]
    session_id: SessionId,
}

fn first_line() -> u64 {
    1
}

fn line_limit() -> u64 {
    2000
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReadResponse {
    /// At most 4 MiB.
    content: String,
    path: String,
    offset: u64,
    /// How many lines `content` has.
    lines: u64,
    total_lines: u64,
    /// There is more after `content`.
    truncated: bool,
    size_bytes: u64,
}

/// Read lines of a text file
#[utoipa::path(
    post, path = "/read", tag = "files",
    request_body = ReadBody,
    responses((status = 200, description = "The lines", body = ReadResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn read(
    caller: Caller,
    State(state): State<AppState>,
    Json(body): Json<ReadBody>,
) -> ApiResult<Json<ReadResponse>> {
    let key = caller.session(body.tenant_id, body.session_id)?;
    for (field, value) in [("offset", body.offset), ("limit", body.limit)] {
        if value == 0 {
            return Err(ApiError::invalid(format!("`{field}` is less than 1")));
        }
    }
    let request = guest::ReadLinesRequest {
        path: body.path,
        offset: body.offset,
        limit: body.limit,
        max_bytes: MAX_TEXT_BYTES,
        ..Default::default()
    };
    let read = state
        .sessions
        .with_guest(&key, |guest| async move { guest.read_lines(request).await })
        .await?;
    Ok(Json(ReadResponse {
        content: read.content,
        path: read.path,
        offset: read.offset,
        lines: read.lines,
        total_lines: read.total_lines,
        truncated: read.truncated,
        size_bytes: read.size_bytes,
    }))
}
