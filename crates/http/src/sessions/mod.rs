//! GET /sessions, and the routes of /sessions/{tenant_id}/{session_id}.

pub(crate) mod archive;
mod asked;
pub(crate) mod contexts;
pub(crate) mod create;
pub(crate) mod pause;

use std::{collections::BTreeMap, time::Duration};

use axum::extract::State;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use guest_client::messages::{UsageRequest, UsageResponse as Used};
use http::StatusCode;
use sandbox_backend::Usage;
use sandbox_core::{Error, ErrorCode, NetworkPolicy, SessionId, SessionKey, TenantId};
use sandbox_session::SessionInfo;
use sandbox_store::AuditAction;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};

use crate::{
    AppState,
    audit::Deed,
    caller::Caller,
    extract::{Json, Query, SessionPath},
    problem::{ApiError, ApiResult, Problem},
    run::LimitsResponse,
    time::rfc3339,
};

const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1000;
/// How long a sandbox may take to say what it uses.
const USAGE_LIMIT: Duration = Duration::from_secs(2);

/// Which sessions to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only this tenant's. An admin may leave it out; else the token's tenant is meant.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// Only those in this state.
    state: Option<String>,
    /// Only those of this backend.
    backend: Option<String>,
    /// Only those with this label: `NAME=VALUE`.
    label: Option<String>,
    /// How many, 1 to 1000; by default 100.
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionsResponse {
    /// By tenant and session.
    sessions: Vec<SessionResponse>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionResponse {
    #[schema(value_type = String)]
    tenant_id: TenantId,
    #[schema(value_type = String)]
    session_id: SessionId,
    /// `starting`, `running`, `stopped` (the next call starts it again), `paused` (calls are
    /// refused until it is resumed) or `ending`.
    #[schema(example = "running")]
    state: &'static str,
    backend: String,
    /// RFC 3339, UTC, like every time here.
    created: String,
    last_used: String,
    /// When the session ends if nobody uses it; absent when it is ending.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    /// When it ends however much it is used; absent when it has no such time.
    #[serde(skip_serializing_if = "Option::is_none")]
    ends: Option<String>,
    /// Absent when it is not paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<PausedResponse>,
    idle_timeout_seconds: u64,
    labels: BTreeMap<String, String>,
    /// The names alone: values may be secrets.
    env: Vec<String>,
    /// Absent: the operator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[schema(value_type = String, example = "disabled")]
    network: NetworkPolicy,
    /// Runs that go on now, and runs that wait for their turn.
    active_runs: usize,
    queued_runs: usize,
    limits: LimitsResponse,
    /// Of a run that names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_seconds: Option<f64>,
    usage: UsageResponse,
}

/// How a session is kept while it is paused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PausedResponse {
    since: String,
    /// With its processes, which are frozen; otherwise its files alone are kept.
    with_memory: bool,
}

/// What the sandbox uses now; null where the backend cannot tell.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UsageResponse {
    memory_bytes: Option<u64>,
    /// Since the sandbox was made.
    cpu_seconds: Option<f64>,
    pids: Option<u32>,
    /// Of the workspace, hidden files included. Null in a list, while no sandbox runs, and where
    /// the files are too many to count in half a second.
    disk_bytes: Option<u64>,
    /// Part of `memory_bytes`: of the Python that runs are forked from. What it shares with other
    /// processes counts in part. Null where `disk_bytes` is, and where there is none.
    warm_python_bytes: Option<u64>,
}

impl From<Usage> for UsageResponse {
    fn from(usage: Usage) -> Self {
        Self {
            memory_bytes: usage.memory_bytes,
            cpu_seconds: usage.cpu_seconds,
            pids: usage.pids,
            disk_bytes: None,
            warm_python_bytes: None,
        }
    }
}

impl From<SessionInfo> for SessionResponse {
    fn from(info: SessionInfo) -> Self {
        Self {
            tenant_id: info.key.tenant,
            session_id: info.key.session,
            state: info.state.as_str(),
            backend: info.backend.to_owned(),
            created: rfc3339(info.created),
            last_used: rfc3339(info.last_used),
            expires: info.expires.map(rfc3339),
            ends: info.ends.map(rfc3339),
            paused: info.paused.map(|paused| PausedResponse {
                since: rfc3339(paused.since),
                with_memory: paused.with_memory,
            }),
            idle_timeout_seconds: info.idle_timeout.as_secs(),
            timeout_seconds: info.options.run_timeout.map(|time| time.as_secs_f64()),
            labels: info.options.labels,
            env: info.spec.env.into_keys().collect(),
            image: info.spec.image,
            network: info.spec.network,
            active_runs: info.active_runs,
            queued_runs: info.queued_runs,
            limits: LimitsResponse::from(&info.spec.limits),
            usage: info.usage.into(),
        }
    }
}

/// List sessions
///
/// An admin sees those of all tenants, everybody else those of one tenant of the token's.
#[utoipa::path(
    get, path = "/sessions", tag = "sessions", params(ListQuery),
    responses((status = 200, description = "A page of sessions", body = SessionsResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn list_sessions(
    caller: Caller,
    State(state): State<AppState>,
    Query(query): Query<ListQuery>,
) -> ApiResult<Json<SessionsResponse>> {
    let tenant = match query.tenant_id {
        named if caller.is_admin() => named,
        named => Some(caller.tenant(named)?),
    };
    let limit = query.limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(ApiError::invalid(format!(
            "`limit` is not between 1 and {MAX_PAGE}"
        )));
    }
    let label = match query.label.as_deref().map(|label| label.split_once('=')) {
        None => None,
        Some(Some(label)) => Some(label),
        Some(None) => return Err(ApiError::invalid("`label` is not NAME=VALUE")),
    };
    let after = query.cursor.as_deref().map(read_cursor).transpose()?;
    let mut found: Vec<SessionInfo> = state
        .sessions
        .list()
        .into_iter()
        .filter(|info| {
            tenant
                .as_ref()
                .is_none_or(|tenant| info.key.tenant == *tenant)
        })
        .filter(|info| {
            query
                .state
                .as_ref()
                .is_none_or(|state| info.state.as_str() == state)
        })
        .filter(|info| {
            query
                .backend
                .as_ref()
                .is_none_or(|name| info.backend == *name)
        })
        .filter(|info| {
            label.is_none_or(|(name, value)| {
                info.options.labels.get(name).is_some_and(|it| it == value)
            })
        })
        .filter(|info| after.as_ref().is_none_or(|after| info.key > *after))
        .collect();
    found.sort_by(|a, b| a.key.cmp(&b.key));
    let more = found.len() > limit;
    found.truncate(limit);
    Ok(Json(SessionsResponse {
        next_cursor: found.last().filter(|_| more).map(|last| cursor(&last.key)),
        sessions: found.into_iter().map(SessionResponse::from).collect(),
    }))
}

/// Look at a session
#[utoipa::path(
    get, path = "/sessions/{tenant_id}/{session_id}", tag = "sessions",
    params(("tenant_id" = String, Path), ("session_id" = String, Path)),
    responses((status = 200, description = "The session", body = SessionResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn get_session(
    caller: Caller,
    State(state): State<AppState>,
    path: SessionPath,
) -> ApiResult<Json<SessionResponse>> {
    let key = caller.managed(path.tenant, path.session)?;
    let info = state.sessions.get(&key).ok_or_else(no_session)?;
    let mut session = SessionResponse::from(info);
    if let Some(used) = used(&state, &key).await {
        let usage = &mut session.usage;
        usage.disk_bytes = used.complete.then_some(used.disk_bytes);
        usage.warm_python_bytes = used.warm_python_bytes;
        usage.memory_bytes = usage.memory_bytes.or(used.memory_bytes);
        usage.pids = usage.pids.or(used.pids);
        let cpu_seconds = used.cpu_us.map(|micros| micros as f64 / 1e6);
        usage.cpu_seconds = usage.cpu_seconds.or(cpu_seconds);
    }
    Ok(Json(session))
}

/// Delete a session
///
/// Ends what runs in it and removes its sandbox and workspace.
#[utoipa::path(
    delete, path = "/sessions/{tenant_id}/{session_id}", tag = "sessions",
    params(("tenant_id" = String, Path), ("session_id" = String, Path)),
    responses((status = 204, description = "Deleted"), (status = "default", response = Problem)),
)]
pub(crate) async fn delete_session(
    caller: Caller,
    State(state): State<AppState>,
    path: SessionPath,
) -> ApiResult<StatusCode> {
    let key = caller.managed(path.tenant, path.session)?;
    let deed = Deed {
        caller: &caller,
        key: &key,
        action: AuditAction::SessionDeleted,
        path: None,
        bytes: None,
    };
    if state.audited(deed, state.sessions.delete(&key)).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(no_session().into())
    }
}

/// Asks a sandbox that runs; none is started for it.
async fn used(state: &AppState, key: &SessionKey) -> Option<Used> {
    let guest = state.sessions.running_guest(key)?;
    let usage = guest.usage(UsageRequest::default());
    timeout(USAGE_LIMIT, usage).await.ok()?.ok()
}

fn no_session() -> Error {
    Error::new(ErrorCode::NotFound, "there is no such session")
}

/// Neither id can have a `/`.
fn cursor(last: &SessionKey) -> String {
    URL_SAFE_NO_PAD.encode(last.to_string())
}

fn read_cursor(text: &str) -> ApiResult<SessionKey> {
    let key = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let (tenant, session) = text.split_once('/')?;
        Some(SessionKey::new(tenant.parse().ok()?, session.parse().ok()?))
    };
    key().ok_or_else(|| ApiError::invalid("`cursor` is not one of this service"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_session_and_others_are_refused() {
        let key = SessionKey::new("t.1".parse().unwrap(), "s_2".parse().unwrap());
        assert_eq!(read_cursor(&cursor(&key)).unwrap(), key);
        for bad in ["", "!", "YQ", "Li4vLi4"] {
            assert!(read_cursor(bad).is_err(), "{bad}");
        }
    }
}
