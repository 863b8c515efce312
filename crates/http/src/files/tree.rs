//! POST /ls, /delete and /move.

use axum::extract::State;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use guest_client::messages as guest;
use sandbox_core::{SessionId, TenantId, Timestamp};
use sandbox_store::AuditAction;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    AppState,
    audit::Deed,
    caller::Caller,
    extract::Json,
    files::workspace,
    problem::{ApiResult, Problem},
    time::rfc3339,
};

/// Most entries that are sent.
const MAX_ENTRIES: u32 = 10_000;

/// A directory to list.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LsBody {
    /// Relative to the workspace, which is the default.
    #[serde(default = "workspace")]
    #[schema(default = workspace)]
    path: String,
    /// The token's tenant when it is absent.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    #[schema(value_type = String)]
    session_id: SessionId,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LsResponse {
    path: String,
    /// By name, at most 10,000.
    entries: Vec<EntryResponse>,
    truncated: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EntryResponse {
    /// What is not UTF-8 is shown as U+FFFD.
    name: String,
    /// The exact bytes of a name that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_base64: Option<String>,
    path: String,
    kind: EntryKind,
    size_bytes: u64,
    /// Permissions in octal.
    #[schema(example = "0644")]
    mode: String,
    /// RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    symlink_target: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EntryKind {
    File,
    Directory,
    Symlink,
    /// A device, a socket or a FIFO.
    Other,
}

impl From<guest::Entry> for EntryResponse {
    fn from(entry: guest::Entry) -> Self {
        let exact = entry.raw_name.is_empty() || entry.raw_name == entry.name.as_bytes();
        Self {
            name_base64: (!exact).then(|| STANDARD.encode(&entry.raw_name)),
            name: entry.name,
            path: entry.path,
            kind: match entry.kind.as_known() {
                Some(guest::EntryKind::ENTRY_KIND_FILE) => EntryKind::File,
                Some(guest::EntryKind::ENTRY_KIND_DIRECTORY) => EntryKind::Directory,
                Some(guest::EntryKind::ENTRY_KIND_SYMLINK) => EntryKind::Symlink,
                _ => EntryKind::Other,
            },
            size_bytes: entry.size_bytes,
            mode: format!("{:04o}", entry.mode & 0o7777),
            modified: entry.modified.as_option().map(|time| {
                let ms = time.seconds.saturating_mul(1000);
                rfc3339(Timestamp(
                    ms.saturating_add(i64::from(time.nanos / 1_000_000)),
                ))
            }),
            symlink_target: entry.symlink_target,
        }
    }
}

/// List a directory
#[utoipa::path(
    post, path = "/ls", tag = "files",
    request_body = LsBody,
    responses((status = 200, description = "The entries", body = LsResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn ls(
    caller: Caller,
    State(state): State<AppState>,
    Json(body): Json<LsBody>,
) -> ApiResult<Json<LsResponse>> {
    let key = caller.session(body.tenant_id, body.session_id)?;
    let request = guest::ListEntriesRequest {
        path: body.path,
        max_entries: MAX_ENTRIES,
        ..Default::default()
    };
    let listed = state
        .sessions
        .with_guest(&key, |guest| async move { guest.list(request).await })
        .await?;
    Ok(Json(LsResponse {
        path: listed.path,
        entries: listed
            .entries
            .into_iter()
            .map(EntryResponse::from)
            .collect(),
        truncated: listed.truncated,
    }))
}

/// A file or directory to delete.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteBody {
    /// Relative to the workspace; a link itself is deleted, not its target.
    path: String,
    /// A directory with all that is in it.
    #[serde(default)]
    recursive: bool,
    /// The token's tenant when it is absent.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    #[schema(value_type = String)]
    session_id: SessionId,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeleteResponse {
    path: String,
}

/// Delete a file or a directory
#[utoipa::path(
    post, path = "/delete", tag = "files",
    request_body = DeleteBody,
    responses((status = 200, description = "Deleted", body = DeleteResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn delete(
    caller: Caller,
    State(state): State<AppState>,
    Json(body): Json<DeleteBody>,
) -> ApiResult<Json<DeleteResponse>> {
    let key = caller.session(body.tenant_id, body.session_id)?;
    let request = guest::RemoveEntryRequest {
        path: body.path.clone(),
        recursive: body.recursive,
        ..Default::default()
    };
    let deed = Deed {
        caller: &caller,
        key: &key,
        action: AuditAction::Delete,
        path: Some(&body.path),
        bytes: None,
    };
    let call = state
        .sessions
        .with_guest(&key, |guest| async move { guest.remove(request).await });
    state.audited(deed, call).await?;
    Ok(Json(DeleteResponse { path: body.path }))
}

/// A file or directory to move.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveBody {
    /// Relative to the workspace.
    source: String,
    /// Relative to the workspace.
    destination: String,
    /// Replace what is there.
    #[serde(default)]
    overwrite: bool,
    /// The token's tenant when it is absent.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    #[schema(value_type = String)]
    session_id: SessionId,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MoveResponse {
    /// Where it is now.
    path: String,
}

/// Move or rename a file or a directory
#[utoipa::path(
    post, path = "/move", tag = "files",
    request_body = MoveBody,
    responses((status = 200, description = "Moved", body = MoveResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn move_entry(
    caller: Caller,
    State(state): State<AppState>,
    Json(body): Json<MoveBody>,
) -> ApiResult<Json<MoveResponse>> {
    let key = caller.session(body.tenant_id, body.session_id)?;
    let request = guest::RenameRequest {
        source: body.source,
        destination: body.destination,
        overwrite: body.overwrite,
        ..Default::default()
    };
    let path = request.source.clone();
    let deed = Deed {
        caller: &caller,
        key: &key,
        action: AuditAction::Move,
        path: Some(&path),
        bytes: None,
    };
    let call = state
        .sessions
        .with_guest(&key, |guest| async move { guest.rename(request).await });
    let moved = state.audited(deed, call).await?;
    Ok(Json(MoveResponse { path: moved.path }))
}
