//! POST /sessions/{tenant_id}/{session_id}/pause and /resume.

use std::time::Duration;

use axum::extract::State;
use sandbox_core::SessionKey;
use sandbox_store::AuditAction;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{SessionResponse, no_session};
use crate::{
    AppState,
    audit::Deed,
    caller::Caller,
    extract::{Json, SessionPath},
    problem::{ApiResult, Problem},
};

/// How to pause.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseBody {
    /// Keep the processes too, where the backend has the capability `freeze`. Elsewhere, and
    /// when the service is restarted under local sandboxes, the files alone are kept.
    #[serde(default = "yes")]
    #[schema(default = true)]
    memory: bool,
}

fn yes() -> bool {
    true
}

/// How to go on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeBody {
    /// Ends the session this long from now, however much it is used; by default it has as much
    /// time left as it had when it was paused.
    ttl_seconds: Option<u64>,
}

/// Pause a session
///
/// Ends the calls in it. Until it is resumed others are refused with 409 `session_paused`, and
/// time does not end it, but 30 days do. A tenant may have `tenant_max_paused` of them.
#[utoipa::path(
    post, path = "/sessions/{tenant_id}/{session_id}/pause", tag = "sessions",
    params(("tenant_id" = String, Path), ("session_id" = String, Path)),
    request_body = PauseBody,
    responses((status = 200, description = "It is paused", body = SessionResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn pause_session(
    caller: Caller,
    State(state): State<AppState>,
    path: SessionPath,
    Json(body): Json<PauseBody>,
) -> ApiResult<Json<SessionResponse>> {
    let key = caller.managed(path.tenant, path.session)?;
    let deed = deed(&caller, &key, AuditAction::SessionPaused);
    let pause = state.sessions.pause(&key, body.memory);
    state.audited(deed, pause).await?;
    shown(&state, &key)
}

/// Resume a session
///
/// Its sandbox is ready when this answers. One that is not paused stays as it is.
#[utoipa::path(
    post, path = "/sessions/{tenant_id}/{session_id}/resume", tag = "sessions",
    params(("tenant_id" = String, Path), ("session_id" = String, Path)),
    request_body = ResumeBody,
    responses((status = 200, description = "It goes on", body = SessionResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn resume_session(
    caller: Caller,
    State(state): State<AppState>,
    path: SessionPath,
    Json(body): Json<ResumeBody>,
) -> ApiResult<Json<SessionResponse>> {
    let key = caller.managed(path.tenant, path.session)?;
    let ttl = ttl(&state, body.ttl_seconds)?;
    let deed = deed(&caller, &key, AuditAction::SessionResumed);
    let resume = state.sessions.resume(&key, ttl);
    state.audited(deed, resume).await?;
    shown(&state, &key)
}

fn ttl(state: &AppState, seconds: Option<u64>) -> ApiResult<Option<Duration>> {
    let max = state.settings.sessions.max_ttl;
    super::create::seconds("ttl_seconds", seconds, max)
}

fn deed<'a>(caller: &'a Caller, key: &'a SessionKey, action: AuditAction) -> Deed<'a> {
    Deed {
        caller,
        key,
        action,
        path: None,
        bytes: None,
    }
}

fn shown(state: &AppState, key: &SessionKey) -> ApiResult<Json<SessionResponse>> {
    let info = state.sessions.get(key).ok_or_else(no_session)?;
    Ok(Json(info.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_keeps_the_memory_unless_it_is_told_not_to() {
        let body: PauseBody = serde_json::from_str("{}").unwrap();
        assert!(body.memory);
        assert!(serde_json::from_str::<PauseBody>(r#"{"memory":1}"#).is_err());
        assert!(serde_json::from_str::<ResumeBody>(r#"{"ttl":1}"#).is_err());
    }
}
