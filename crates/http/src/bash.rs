//! POST /bash: a command line.

use std::collections::BTreeMap;

use axum::extract::State;
use sandbox_core::{Program, RunRequest, Script, SessionId, TenantId};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    AppState,
    caller::Caller,
    extract::Json,
    input,
    problem::{ApiResult, Problem},
    run::{Run, RunResponse},
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
    responses((status = 200, description = "The command ran to its end, or was ended", body = RunResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn bash(
    caller: Caller,
    State(state): State<AppState>,
    Json(body): Json<BashBody>,
) -> ApiResult<Json<RunResponse>> {
    let settings = &state.settings;
    let tenant = caller.run_as(body.tenant_id, body.session_id.as_ref())?;
    let timeout = input::timeout(body.timeout_seconds, settings)?;
    input::environment(&body.env)?;
    let shell = settings.languages.shell();
    let command = input::code("command", body.command, settings)?;
    let run = Run {
        tenant,
        session: body.session_id,
        files: Vec::new(),
        request: RunRequest {
            program: program(shell, command)?,
            env: body.env,
            cwd: body.cwd,
            stdin: body.stdin.into(),
            timeout,
            output_limit: settings.max_output_bytes,
            live: false,
            spill_limit: 0,
            artifacts: None,
            python_display: false,
        },
        language: "bash".into(),
        runtime: shell.to_owned(),
    };
    run.answer(&state).await.map(Json)
}

fn program(shell: &str, command: String) -> ApiResult<Program> {
    if command.len() > MAX_ARGUMENT_BYTES {
        return Ok(Program {
            argv: vec![shell.into(), "{file}".into()],
            script: Some(Script {
                file_name: "main.sh".into(),
                source: command.into(),
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
