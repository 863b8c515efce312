//! The contexts of a session: /sessions/{tenant_id}/{session_id}/contexts.

use axum::extract::{FromRequestParts, Path, State};
use http::{StatusCode, request::Parts};
use sandbox_core::{ContextInfo, ContextName, Error, ErrorCode, Result, SessionId, TenantId};
use sandbox_session::Lease;
use serde::Serialize;
use utoipa::ToSchema;

use super::no_session;
use crate::{
    AppState,
    caller::Caller,
    extract::{Json, SessionPath},
    problem::{ApiError, ApiResult, Problem},
};

/// `{tenant_id}/{session_id}` and `{context}` of a path.
pub(crate) struct ContextPath {
    tenant: TenantId,
    session: SessionId,
    context: ContextName,
}

impl FromRequestParts<AppState> for ContextPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> ApiResult<Self> {
        let Path((tenant, session, context)) =
            Path::<(String, String, String)>::from_request_parts(parts, state)
                .await
                .map_err(|rejection| ApiError::invalid(rejection.body_text()))?;
        Ok(Self {
            tenant: tenant.parse()?,
            session: session.parse()?,
            context: context.parse()?,
        })
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ContextsResponse {
    /// By name.
    contexts: Vec<ContextResponse>,
}

/// An interpreter that stays alive.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ContextResponse {
    #[schema(example = "main")]
    context: String,
    #[schema(example = "python")]
    language: String,
    /// It runs code.
    busy: bool,
    /// Runs that it was given since it was started.
    runs: u64,
    age_seconds: f64,
    /// Since its last run.
    idle_seconds: f64,
    /// Resident, of the interpreter without what it has started.
    memory_bytes: u64,
}

impl From<ContextInfo> for ContextResponse {
    fn from(info: ContextInfo) -> Self {
        Self {
            context: info.name,
            language: info.language,
            busy: info.busy,
            runs: info.runs,
            age_seconds: info.age.as_secs_f64(),
            idle_seconds: info.idle.as_secs_f64(),
            memory_bytes: info.memory_bytes,
        }
    }
}

/// List contexts
///
/// Those that live in the session's sandbox now; a sandbox that does not run has none.
#[utoipa::path(
    get, path = "/sessions/{tenant_id}/{session_id}/contexts", tag = "sessions",
    params(("tenant_id" = String, Path), ("session_id" = String, Path)),
    responses((status = 200, description = "The contexts", body = ContextsResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn list_contexts(
    caller: Caller,
    State(state): State<AppState>,
    path: SessionPath,
) -> ApiResult<Json<ContextsResponse>> {
    let key = caller.managed(path.tenant, path.session)?;
    if !state.sessions.knows(&key) {
        return Err(no_session().into());
    }
    // A look at a session is no use of it, and starts no sandbox.
    let contexts = match state.sessions.running_guest(&key) {
        Some(guest) => guest.contexts().await?,
        None => Vec::new(),
    };
    Ok(Json(ContextsResponse {
        contexts: contexts.into_iter().map(Into::into).collect(),
    }))
}

/// Restart a context
///
/// Ends its interpreter with all that it started, a run under way included, and starts another
/// one, without variables.
#[utoipa::path(
    post, path = "/sessions/{tenant_id}/{session_id}/contexts/{context}/restart", tag = "sessions",
    params(("tenant_id" = String, Path), ("session_id" = String, Path), ("context" = String, Path)),
    responses((status = 200, description = "The new one", body = ContextResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn restart_context(
    caller: Caller,
    State(state): State<AppState>,
    path: ContextPath,
) -> ApiResult<Json<ContextResponse>> {
    let lease = living(&caller, &state, &path).await?;
    let restart = lease.guest().restart_context(&path.context);
    Ok(Json(lease.call(restart).await?.into()))
}

/// Delete a context
///
/// Ends its interpreter with all that it started, a run under way included.
#[utoipa::path(
    delete, path = "/sessions/{tenant_id}/{session_id}/contexts/{context}", tag = "sessions",
    params(("tenant_id" = String, Path), ("session_id" = String, Path), ("context" = String, Path)),
    responses((status = 204, description = "Deleted"), (status = "default", response = Problem)),
)]
pub(crate) async fn delete_context(
    caller: Caller,
    State(state): State<AppState>,
    path: ContextPath,
) -> ApiResult<StatusCode> {
    let lease = living(&caller, &state, &path).await?;
    lease
        .call(lease.guest().delete_context(&path.context))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The sandbox that may have the context: none is started to find that it has not.
async fn living(caller: &Caller, state: &AppState, path: &ContextPath) -> Result<Lease> {
    let key = caller.managed(path.tenant.clone(), path.session.clone())?;
    if !state.sessions.knows(&key) {
        return Err(no_session());
    }
    if state.sessions.running_guest(&key).is_none() {
        return Err(Error::new(ErrorCode::NotFound, "there is no such context"));
    }
    state.sessions.lease(&key).await
}
