//! Processes: started by one request, and spoken to by others.

pub(crate) mod attach;
pub(crate) mod input;
pub(crate) mod output;
mod signal;

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::State;
use http::StatusCode;
use sandbox_core::{Result, SessionId, TenantId};
use sandbox_execution::{Process, StartProcess};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    AppState,
    caller::Caller,
    extract::{Json, ProcessPath, Query},
    input as given,
    problem::{ApiError, ApiResult, Problem},
    time::rfc3339,
};

const MAX_NAME_CHARS: usize = 64;
const MAX_SIDE: u16 = 1000;

/// The terminal that a process shall have.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Terminal {
    /// Columns, 1 to 1000.
    #[serde(default = "columns")]
    #[schema(default = 80, minimum = 1, maximum = 1000)]
    cols: u16,
    /// Rows, 1 to 1000.
    #[serde(default = "rows")]
    #[schema(default = 24, minimum = 1, maximum = 1000)]
    rows: u16,
}

fn columns() -> u16 {
    80
}

fn rows() -> u16 {
    24
}

impl Terminal {
    fn size(self) -> ApiResult<(u16, u16)> {
        let sides = 1..=MAX_SIDE;
        if sides.contains(&self.cols) && sides.contains(&self.rows) {
            Ok((self.cols, self.rows))
        } else {
            Err(ApiError::invalid(format!(
                "`cols` and `rows` are not between 1 and {MAX_SIDE}"
            )))
        }
    }
}

/// A process to start: `argv` or `command`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProcessBody {
    /// The program and its arguments.
    #[schema(min_items = 1, max_items = 1024)]
    argv: Option<Vec<String>>,
    /// A line for the shell, as in /bash.
    command: Option<String>,
    /// A terminal instead of three pipes; its output is one stream, stdout.
    pty: Option<Terminal>,
    /// Added to the sandbox's environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Relative to the workspace, which is the default.
    cwd: Option<String>,
    /// What you call it, at most 64 characters; not a key, two may have the same.
    #[schema(max_length = 64)]
    name: Option<String>,
    /// The token's tenant when it is absent.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// Made on first use.
    #[schema(value_type = String)]
    session_id: SessionId,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProcessResponse {
    #[schema(format = "uuid")]
    process_id: String,
    #[schema(value_type = String)]
    session_id: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    argv: Vec<String>,
    /// In its sandbox.
    pid: u32,
    /// Whether it has a terminal.
    pty: bool,
    /// `running`, `ended`, or `lost` when its sandbox ended before it.
    #[schema(example = "running")]
    state: &'static str,
    started: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    /// 128+N when signal N ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<u32>,
    /// How much it has printed.
    output_bytes: u64,
    /// The number of its last event, for `after` of its output.
    last_event: u64,
}

impl From<&Process> for ProcessResponse {
    fn from(process: &Process) -> Self {
        let end = process.end();
        Self {
            process_id: process.id().to_owned(),
            session_id: process.key().session.clone(),
            name: process.name().map(str::to_owned),
            argv: process.argv().to_vec(),
            pid: process.pid(),
            pty: process.has_terminal(),
            state: match end {
                None => "running",
                Some(end) if end.exit_code.is_some() => "ended",
                Some(_) => "lost",
            },
            started: rfc3339(process.started()),
            ended: end.map(|end| rfc3339(end.at)),
            exit_code: end.and_then(|end| end.exit_code),
            signal: end.and_then(|end| end.signal),
            output_bytes: process.output_bytes(),
            last_event: process.last_event(),
        }
    }
}

/// Start a process
///
/// It goes on after this answer, until it ends, is ended, or its session ends.
#[utoipa::path(
    post, path = "/processes", tag = "processes",
    request_body = ProcessBody,
    responses((status = 201, description = "Started", body = ProcessResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn start_process(
    caller: Caller,
    State(state): State<AppState>,
    Json(body): Json<ProcessBody>,
) -> ApiResult<(StatusCode, Json<ProcessResponse>)> {
    let key = caller.session(body.tenant_id, body.session_id)?;
    given::environment(&body.env)?;
    if let Some(name) = &body.name
        && (name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control))
    {
        return Err(ApiError::invalid(format!(
            "`name` is longer than {MAX_NAME_CHARS} characters, or has control characters"
        )));
    }
    let start = StartProcess {
        key,
        argv: argv(&state, body.argv, body.command)?,
        name: body.name,
        env: body.env,
        cwd: body.cwd,
        terminal: body.pty.map(Terminal::size).transpose()?,
        subject: caller.subject().to_owned(),
        request_id: caller.request_id().map(str::to_owned),
    };
    let process = state.processes.start(start).await?;
    Ok((StatusCode::CREATED, Json(process.as_ref().into())))
}

fn argv(
    state: &AppState,
    argv: Option<Vec<String>>,
    command: Option<String>,
) -> ApiResult<Vec<String>> {
    let argv = match (argv, command) {
        (Some(argv), None) => argv,
        (None, Some(command)) => {
            let command = given::code("command", command, &state.settings)?;
            let shell = state.settings.languages.shell().to_owned();
            vec![shell, "-c".into(), command]
        }
        _ => return Err(ApiError::invalid("give one of `argv` and `command`")),
    };
    if argv.first().is_none_or(String::is_empty) {
        return Err(ApiError::invalid("`argv` names no program"));
    }
    given::arguments("argv", &argv)?;
    Ok(argv)
}

/// Whose processes to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// The token's tenant when it is absent.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    #[param(value_type = String)]
    session_id: SessionId,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProcessesResponse {
    /// Oldest first; of those that have ended the last 64.
    processes: Vec<ProcessResponse>,
}

/// List the processes of a session
#[utoipa::path(
    get, path = "/processes", tag = "processes", params(ListQuery),
    responses((status = 200, description = "Those that run and those that ended last", body = ProcessesResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn list_processes(
    caller: Caller,
    State(state): State<AppState>,
    Query(query): Query<ListQuery>,
) -> ApiResult<Json<ProcessesResponse>> {
    let key = caller.session(query.tenant_id, query.session_id)?;
    let processes = state.processes.list(&key);
    Ok(Json(ProcessesResponse {
        processes: processes
            .iter()
            .map(|process| process.as_ref().into())
            .collect(),
    }))
}

/// Whose process it is.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TenantQuery {
    /// The token's tenant when it is absent.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
}

/// Look at a process
#[utoipa::path(
    get, path = "/processes/{process_id}", tag = "processes",
    params(("process_id" = String, Path, format = "uuid"), TenantQuery),
    responses((status = 200, description = "The process", body = ProcessResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn get_process(
    caller: Caller,
    State(state): State<AppState>,
    ProcessPath(id): ProcessPath,
    Query(query): Query<TenantQuery>,
) -> ApiResult<Json<ProcessResponse>> {
    let process = find(&state, &caller, query.tenant_id, &id)?;
    Ok(Json(process.as_ref().into()))
}

/// Kill a process and forget it
///
/// What it started is killed with it. One that has ended is only forgotten.
#[utoipa::path(
    delete, path = "/processes/{process_id}", tag = "processes",
    params(("process_id" = String, Path, format = "uuid"), TenantQuery),
    responses((status = 204, description = "It is gone"), (status = "default", response = Problem)),
)]
pub(crate) async fn delete_process(
    caller: Caller,
    State(state): State<AppState>,
    ProcessPath(id): ProcessPath,
    Query(query): Query<TenantQuery>,
) -> ApiResult<StatusCode> {
    let process = find(&state, &caller, query.tenant_id, &id)?;
    state.processes.remove(&process).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A foreign tenant's is not there.
fn find(
    state: &AppState,
    caller: &Caller,
    tenant: Option<TenantId>,
    id: &str,
) -> Result<Arc<Process>> {
    let tenant = caller.tenant(tenant)?;
    state.processes.get(&tenant, id)
}
