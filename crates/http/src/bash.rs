//! POST /bash: a command line.

use std::collections::BTreeMap;

use axum::{extract::State, response::Response};
use http::HeaderMap;
use sandbox_core::{ExecutionId, Program, RunRequest, Script, SessionId, TenantId};
use sandbox_execution::ExecutionRequest;
use sandbox_store::AuditAction;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    AppState,
    caller::Caller,
    executions::EventResponse,
    extract::Json,
    input,
    problem::{ApiResult, Problem},
    run::{self, RunResponse, RunningResponse, Wish},
};

/// A longer command goes by a file: the kernel takes no string above 128 KiB.
const MAX_ARGUMENT_BYTES: usize = 100 * 1024;

/// A command to run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BashBody {
    /// What `bash -c` is given, at most 1 MiB; not empty.
    #[schema(example = "ls -l | wc -l")]
    command: String,
    /// The token's tenant when it is absent.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// Made on first use. Without it, the run has a sandbox of its own, destroyed after it.
    #[schema(value_type = Option<String>)]
    session_id: Option<SessionId>,
    /// 0.001 to 3600, where the operator has not set another maximum or default.
    #[schema(default = 30)]
    timeout_seconds: Option<f64>,
    /// Relative to the workspace, which is the default.
    cwd: Option<String>,
    /// Answer with server-sent events; also asked for by `Accept: text/event-stream`.
    stream: Option<bool>,
    /// Go on when the client goes away.
    #[serde(default)]
    detach: bool,
    /// Answer after this long at the latest, 0 to 3600, with 202 if it still runs; it goes on.
    #[schema(minimum = 0, maximum = 3600)]
    wait_seconds: Option<f64>,
    /// A name for the run: the same one again is the same run, never a second one. The header
    /// `Idempotency-Key` does the same.
    #[schema(value_type = Option<String>)]
    execution_id: Option<ExecutionId>,
    /// Added to the sandbox's environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// What the command reads from its standard input.
    #[serde(default)]
    stdin: String,
}

/// Run a command
///
/// The workspace is the working directory. The answer is 200 whatever the command did.
#[utoipa::path(
    post, path = "/bash", tag = "run",
    request_body = BashBody,
    responses((status = 200, description = "It ran to its end, or was ended; or its events", content((RunResponse = "application/json"), (EventResponse = "text/event-stream"))), (status = 202, description = "It still runs after `wait_seconds`", body = RunningResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn bash(
    caller: Caller,
    State(state): State<AppState>,
    headers: HeaderMap,
    Json(body): Json<BashBody>,
) -> ApiResult<Response> {
    let settings = &state.settings;
    let tenant = caller.run_as(body.tenant_id, body.session_id.as_ref())?;
    let timeout = run::timeout(
        &state,
        &tenant,
        body.session_id.as_ref(),
        body.timeout_seconds,
    )?;
    input::environment(&body.env)?;
    let shell = settings.languages.shell();
    let command = input::code("command", body.command, settings)?;
    let wish = Wish {
        stream: body.stream,
        wait_seconds: body.wait_seconds,
        execution_id: body.execution_id,
    };
    let wanted = wish.answer(&headers)?;
    let artifacts = settings.artifacts_of(body.session_id.as_ref());
    let request = ExecutionRequest {
        tenant,
        session: body.session_id,
        existing: false,
        id: wish.execution(&headers)?,
        files: Vec::new(),
        action: AuditAction::Bash,
        code: command.clone(),
        language: "bash".into(),
        runtime: shell.to_owned(),
        missing: format!("the sandbox has no `{shell}`"),
        detach: body.detach,
        subject: caller.subject().to_owned(),
        request_id: caller.request_id().map(str::to_owned),
        run: RunRequest {
            program: program(shell, command)?,
            env: body.env,
            cwd: body.cwd,
            stdin: body.stdin.into(),
            timeout,
            output_limit: settings.max_output_bytes,
            live: false,
            spill_limit: settings.spill_bytes,
            artifacts,
            python_display: false,
            context: None,
        },
    };
    run::answer(&state, wanted, request).await
}

fn program(shell: &str, command: String) -> ApiResult<Program> {
    if command.len() > MAX_ARGUMENT_BYTES {
        return Ok(Program {
            argv: vec![shell.into(), "{file}".into()],
            script: Some(Script {
                file_name: "main.sh".into(),
                source: command.into(),
                compile: Vec::new(),
            }),
        });
    }
    input::command(&command)?;
    Ok(Program {
        argv: vec![shell.into(), "-c".into(), command],
        script: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_too_long_for_an_argument_goes_by_a_file() {
        let short = program("bash", "true".into()).unwrap();
        assert_eq!(short.argv, ["bash", "-c", "true"]);
        let long = "#".repeat(MAX_ARGUMENT_BYTES + 1);
        let program = program("bash", long.clone()).unwrap();
        assert_eq!(program.argv, ["bash", "{file}"]);
        assert_eq!(program.script.unwrap().source, long);
    }
}
