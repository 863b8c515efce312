//! POST /execute: code in a language of the table.

use std::collections::BTreeMap;

use axum::extract::State;
use sandbox_core::{RunRequest, SessionId, TenantId};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    AppState,
    caller::Caller,
    extract::Json,
    input::{self, InputFile},
    problem::{ApiResult, Problem},
    run::{Run, RunResponse},
};

/// Code to run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteBody {
    /// The source, at most 1 MiB; not empty.
    #[schema(example = "print(42)")]
    code: String,
    /// A name or alias of the table of languages.
    #[serde(default = "default_language")]
    #[schema(default = default_language)]
    language: String,
    /// The token's tenant when it is absent.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// Made on first use. Without it, the run has a sandbox of its own, destroyed after it.
    #[schema(value_type = Option<String>)]
    session_id: Option<SessionId>,
    /// 0.001 to 3600, where the operator has not set another maximum or default.
    #[schema(default = 30)]
    timeout_seconds: Option<f64>,
    /// Added to the sandbox's environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// What the program reads from its standard input.
    #[serde(default)]
    stdin: String,
    /// Arguments of the program.
    #[serde(default)]
    args: Vec<String>,
    /// Files that are put in the workspace before the run, at most 256.
    #[serde(default)]
    #[schema(max_items = 256)]
    files: Vec<InputFile>,
}

fn default_language() -> String {
    "python".into()
}

/// Run code
///
/// The workspace is the working directory. The answer is 200 whatever the program did.
#[utoipa::path(
    post, path = "/execute", tag = "run",
    request_body = ExecuteBody,
    responses((status = 200, description = "The program ran to its end, or was ended", body = RunResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn execute(
    caller: Caller,
    State(state): State<AppState>,
    Json(body): Json<ExecuteBody>,
) -> ApiResult<Json<RunResponse>> {
    let settings = &state.settings;
    let tenant = caller.run_as(body.tenant_id, body.session_id.as_ref())?;
    let language = settings.languages.get(&body.language)?;
    let timeout = input::timeout(body.timeout_seconds, settings)?;
    input::environment(&body.env)?;
    input::arguments(&body.args)?;
    let code = input::code("code", body.code, settings)?;
    let run = Run {
        tenant,
        session: body.session_id,
        files: input::files(body.files)?,
        request: RunRequest {
            program: language.run(code, body.args),
            env: body.env,
            cwd: None,
            stdin: body.stdin.into(),
            timeout,
            output_limit: settings.max_output_bytes,
            live: false,
            spill_limit: 0,
            artifacts: None,
            python_display: false,
        },
        language: language.name().to_owned(),
        runtime: language.program().to_owned(),
    };
    run.answer(&state).await.map(Json)
}
