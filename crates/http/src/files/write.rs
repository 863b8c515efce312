//! POST /write and /edit.

use axum::extract::State;
use guest_client::messages as guest;
use sandbox_core::{SessionId, TenantId};
use sandbox_store::AuditAction;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    AppState,
    audit::Deed,
    caller::Caller,
    extract::Json,
    input::{self, Encoding},
    problem::{ApiError, ApiResult, Problem},
};

/// A file to write.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteBody {
    /// Relative to the workspace; `/workspace/...` is the same.
    path: String,
    content: String,
    #[serde(default)]
    encoding: Encoding,
    /// Permissions: octal as a string, such as `"0644"` (the default), or their value as a number.
    #[serde(default, deserialize_with = "input::mode")]
    #[schema(schema_with = input::mode_schema)]
    mode: Option<u32>,
    /// Add to the file's end, in place of replacing it at once.
    #[serde(default)]
    append: bool,
    /// Make the directories that are missing.
    #[serde(default = "yes")]
    #[schema(default = yes)]
    create_dirs: bool,
    /// The token's tenant when it is absent.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    #[schema(value_type = String)]
    session_id: SessionId,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WriteResponse {
    path: String,
    /// Of the whole file, afterwards.
    size_bytes: u64,
    /// The file was not there before.
    created: bool,
}

/// Write a file
///
/// Readers see the old file or the new one, never a part, unless `append` is set.
#[utoipa::path(
    post, path = "/write", tag = "files",
    request_body = WriteBody,
    responses((status = 200, description = "Written", body = WriteResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn write(
    caller: Caller,
    State(state): State<AppState>,
    Json(body): Json<WriteBody>,
) -> ApiResult<Json<WriteResponse>> {
    let key = caller.session(body.tenant_id, body.session_id)?;
    let request = guest::WriteRequest {
        path: body.path,
        data: body.encoding.decode("content", body.content)?,
        mode: body.mode.unwrap_or(input::FILE_MODE),
        append: body.append,
        create_dirs: body.create_dirs,
        ..Default::default()
    };
    let path = request.path.clone();
    let deed = Deed {
        caller: &caller,
        key: &key,
        action: AuditAction::Write,
        path: Some(&path),
        bytes: Some(request.data.len() as u64),
    };
    let call = state
        .sessions
        .with_guest(&key, |guest| async move { guest.write(request).await });
    let written = state.audited(deed, call).await?;
    Ok(Json(WriteResponse {
        path: written.path,
        size_bytes: written.size_bytes,
        created: written.created,
    }))
}

/// A text to replace in a file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditBody {
    /// Relative to the workspace; `/workspace/...` is the same.
    path: String,
    /// Must be in the file exactly once, unless `replace_all` is set.
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
    /// The token's tenant when it is absent.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    #[schema(value_type = String)]
    session_id: SessionId,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EditResponse {
    path: String,
    replacements: u32,
}

/// Replace a text in a file
///
/// None or several matches are a 409 that says how many there are.
#[utoipa::path(
    post, path = "/edit", tag = "files",
    request_body = EditBody,
    responses((status = 200, description = "Edited", body = EditResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn edit(
    caller: Caller,
    State(state): State<AppState>,
    Json(body): Json<EditBody>,
) -> ApiResult<Json<EditResponse>> {
    let key = caller.session(body.tenant_id, body.session_id)?;
    if body.old_string.is_empty() {
        return Err(ApiError::invalid("`old_string` is empty"));
    }
    let request = guest::EditRequest {
        path: body.path,
        old_string: body.old_string,
        new_string: body.new_string,
        replace_all: body.replace_all,
        ..Default::default()
    };
    let path = request.path.clone();
    let deed = Deed {
        caller: &caller,
        key: &key,
        action: AuditAction::Edit,
        path: Some(&path),
        bytes: Some(request.new_string.len() as u64),
    };
    let call = state
        .sessions
        .with_guest(&key, |guest| async move { guest.edit(request).await });
    let edited = state.audited(deed, call).await?;
    Ok(Json(EditResponse {
        path: edited.path,
        replacements: edited.replacements,
    }))
}
