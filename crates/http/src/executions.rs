//! Runs after their request: outcome, events, cancellation, and the audit trail.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sandbox_core::{Error, ErrorCode, ExecutionId, Result, SessionId, TenantId, Timestamp};
use sandbox_execution::Execution;
use sandbox_store::{AuditAction, AuditFilter, AuditRecord, AuditStore};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    AppState,
    caller::Caller,
    extract::{ExecutionPath, Json, Query},
    problem::{ApiError, ApiResult, Problem},
    run::{self, RunResponse, RunningResponse, stream as events},
    sse,
    time::{parse_rfc3339, rfc3339},
};

const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1000;
/// How long the end of a cancelled run is waited for.
const CANCEL_WAIT: Duration = Duration::from_secs(10);
/// Records that are read at once for an export.
const EXPORT_STEP: usize = 500;

/// Whose run it is, and how long to wait for its end.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExecutionQuery {
    /// The token's tenant when it is absent.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// Wait this long for the end, 0 to 3600.
    #[param(minimum = 0, maximum = 3600)]
    wait_seconds: Option<f64>,
}

/// Look at a run
///
/// As long as it runs, the answer is 202 with what it has come to so far. The outcome of a run
/// is kept for some minutes.
#[utoipa::path(
    get, path = "/executions/{execution_id}", tag = "run",
    params(("execution_id" = String, Path), ExecutionQuery),
    responses(
        (status = 200, description = "It has ended", body = RunResponse),
        (status = 202, description = "It runs", body = RunningResponse),
        (status = "default", response = Problem),
    ),
)]
pub(crate) async fn get_execution(
    caller: Caller,
    State(state): State<AppState>,
    ExecutionPath(id): ExecutionPath,
    Query(query): Query<ExecutionQuery>,
) -> ApiResult<Response> {
    let execution = find(&state, &caller, query.tenant_id, &id)?;
    let wait = run::wait(query.wait_seconds)?.unwrap_or_default();
    run::at_most(execution.attach(), wait).await
}

/// Whose run it is, and from where to read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// The token's tenant when it is absent.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// The number of the last event that is known; 0, the default, is none. The header
    /// `Last-Event-ID` does the same.
    after: Option<u64>,
}

/// A server-sent event of a run.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is the shape of what the stream's frames say")]
pub(crate) struct EventResponse {
    /// The event's number, from 1.
    #[schema(example = "1")]
    id: String,
    /// `start`, `stdout`, `stderr`, `display`, `exception`, `artifact`, `gap`, and last `result` or `error`.
    #[schema(example = "stdout")]
    event: String,
    /// JSON: of output `{text}`, of `result` what /execute answers, of `error` a problem.
    #[schema(example = "{\"text\":\"42\\n\"}")]
    data: String,
}

/// Read a run's events
///
/// Server-sent events, each with its number, from any point that is still kept; a `gap` event
/// tells of those that are not.
#[utoipa::path(
    get, path = "/executions/{execution_id}/events", tag = "run",
    params(("execution_id" = String, Path), EventsQuery),
    responses(
        (status = 200, description = "The events", body = EventResponse, content_type = "text/event-stream"),
        (status = "default", response = Problem),
    ),
)]
pub(crate) async fn execution_events(
    caller: Caller,
    State(state): State<AppState>,
    ExecutionPath(id): ExecutionPath,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let execution = find(&state, &caller, query.tenant_id, &id)?;
    let after = sse::after(query.after, &headers)?;
    Ok(events::events(execution.attach(), after))
}

/// Whose run it is.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TenantQuery {
    /// The token's tenant when it is absent.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
}

/// Cancel a run
///
/// Kills what it started. A run that has ended is left as it is; either way the answer is its
/// outcome.
#[utoipa::path(
    post, path = "/executions/{execution_id}/cancel", tag = "run",
    params(("execution_id" = String, Path), TenantQuery),
    responses(
        (status = 200, description = "It has ended", body = RunResponse),
        (status = 202, description = "It is still being ended", body = RunningResponse),
        (status = "default", response = Problem),
    ),
)]
pub(crate) async fn cancel_execution(
    caller: Caller,
    State(state): State<AppState>,
    ExecutionPath(id): ExecutionPath,
    Query(query): Query<TenantQuery>,
) -> ApiResult<Response> {
    let execution = find(&state, &caller, query.tenant_id, &id)?;
    execution.cancel();
    run::at_most(execution.attach(), CANCEL_WAIT).await
}

fn find(
    state: &AppState,
    caller: &Caller,
    tenant: Option<TenantId>,
    id: &ExecutionId,
) -> Result<Arc<Execution>> {
    let tenant = caller.tenant(tenant)?;
    state.executions.get(&tenant, id).ok_or_else(|| {
        Error::new(
            ErrorCode::NotFound,
            "there is no such run, or its outcome is no longer kept",
        )
    })
}

/// Which entries of the audit trail to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only this tenant's. An admin may leave it out; else the token's tenant is meant.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    #[param(value_type = Option<String>)]
    session_id: Option<SessionId>,
    #[param(value_type = Option<String>)]
    execution_id: Option<ExecutionId>,
    /// From this time on, RFC 3339.
    from: Option<String>,
    /// Before this time.
    until: Option<String>,
    /// How many, 1 to 1000; by default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExecutionsResponse {
    /// Newest first.
    executions: Vec<AuditResponse>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// An entry of the audit trail.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditResponse {
    id: String,
    /// When it began; RFC 3339, UTC.
    at: String,
    #[schema(value_type = String)]
    tenant_id: TenantId,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    session_id: Option<SessionId>,
    /// Who did it: `sub` of the token, or the API key's id.
    subject: String,
    /// `execute`, `bash`, `write`, `edit`, `delete`, `move`, `copy`, `process_started`,
    /// `session_created`, `session_deleted`, `session_paused` or `session_resumed`.
    #[schema(example = "execute")]
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    execution_id: Option<ExecutionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code_sha256: Option<String>,
    /// Where the operator keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// A run's termination, `ok`, or the code of an error.
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// Printed by a run, or written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    duration_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

impl From<AuditRecord> for AuditResponse {
    fn from(record: AuditRecord) -> Self {
        Self {
            id: record.id,
            at: rfc3339(record.at),
            tenant_id: record.tenant,
            session_id: record.session,
            subject: record.subject,
            action: record.action.as_str(),
            execution_id: record.execution,
            language: record.language,
            code_sha256: record.code_sha256,
            code: record.code,
            path: record.path,
            outcome: record.outcome,
            exit_code: record.exit_code,
            bytes: record.bytes,
            duration_seconds: record.duration_ms as f64 / 1e3,
            request_id: record.request_id,
        }
    }
}

/// List runs
///
/// Those that have ended, of the audit trail, newest first. An admin sees those of all tenants.
#[utoipa::path(
    get, path = "/executions", tag = "audit", params(ListQuery),
    responses((status = 200, description = "A page of runs", body = ExecutionsResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn list_executions(
    caller: Caller,
    State(state): State<AppState>,
    Query(query): Query<ListQuery>,
) -> ApiResult<Json<ExecutionsResponse>> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(ApiError::invalid(format!(
            "`limit` is not between 1 and {MAX_PAGE}"
        )));
    }
    let before = query.cursor.clone();
    if before
        .as_deref()
        .is_some_and(|cursor| cursor.parse::<uuid::Uuid>().is_err())
    {
        return Err(ApiError::invalid("`cursor` is not one of this service"));
    }
    let filter = AuditFilter {
        tenant: match query.tenant_id {
            named if caller.is_admin() => named,
            named => Some(caller.tenant(named)?),
        },
        session: query.session_id,
        actions: vec![AuditAction::Execute, AuditAction::Bash],
        execution: query.execution_id,
        from: time("from", query.from)?,
        until: time("until", query.until)?,
    };
    let mut found = state
        .audit_trail
        .newest(&filter, before.as_deref(), limit + 1)
        .await?;
    let more = found.len() > limit;
    found.truncate(limit);
    Ok(Json(ExecutionsResponse {
        next_cursor: found.last().filter(|_| more).map(|last| last.id.clone()),
        executions: found.into_iter().map(AuditResponse::from).collect(),
    }))
}

fn time(field: &str, text: Option<String>) -> ApiResult<Option<Timestamp>> {
    text.map(|text| {
        parse_rfc3339(&text)
            .ok_or_else(|| ApiError::invalid(format!("`{field}` is not a time of RFC 3339")))
    })
    .transpose()
}

/// What of the audit trail to export.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportQuery {
    /// Only this tenant's.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// Only this session's.
    #[param(value_type = Option<String>)]
    session_id: Option<SessionId>,
    /// From this time on, RFC 3339.
    from: Option<String>,
    /// Before this time.
    until: Option<String>,
}

/// Export the audit trail
///
/// For admins: every entry, oldest first, as lines of JSON.
#[utoipa::path(
    get, path = "/audit", tag = "audit", params(ExportQuery),
    responses(
        (status = 200, description = "One JSON object on each line", body = AuditResponse, content_type = "application/x-ndjson"),
        (status = "default", response = Problem),
    ),
)]
pub(crate) async fn export_audit(
    caller: Caller,
    State(state): State<AppState>,
    Query(query): Query<ExportQuery>,
) -> ApiResult<Response> {
    if !caller.is_admin() {
        return Err(ApiError::new(
            ErrorCode::Forbidden,
            "only an admin may export the audit trail",
        ));
    }
    let filter = AuditFilter {
        tenant: query.tenant_id,
        session: query.session_id,
        from: time("from", query.from)?,
        until: time("until", query.until)?,
        ..AuditFilter::default()
    };
    let trail = Arc::clone(&state.audit_trail);
    // The first step is made here, so that a store that is down is a problem.
    let first = trail.oldest(&filter, None, EXPORT_STEP).await?;
    let steps = stream::try_unfold(Some(first), move |step| {
        let (trail, filter) = (Arc::clone(&trail), filter.clone());
        async move { next_step(trail.as_ref(), &filter, step).await }
    });
    let mut response = (StatusCode::OK, Body::from_stream(steps)).into_response();
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-ndjson"),
    );
    Ok(response)
}

type Step = Option<Vec<AuditRecord>>;

/// A step as lines, and the step after it.
async fn next_step(
    trail: &dyn AuditStore,
    filter: &AuditFilter,
    step: Step,
) -> Result<Option<(Bytes, Step)>> {
    let Some(records) = step.filter(|records| !records.is_empty()) else {
        return Ok(None);
    };
    let next = if records.len() < EXPORT_STEP {
        None
    } else {
        let last = records.last().map(|record| record.id.clone());
        Some(trail.oldest(filter, last.as_deref(), EXPORT_STEP).await?)
    };
    let mut lines = Vec::new();
    for record in records {
        serde_json::to_writer(&mut lines, &AuditResponse::from(record)).map_err(Error::internal)?;
        lines.push(b'\n');
    }
    Ok(Some((lines.into(), next)))
}
