//! POST /execute: code in a language of the table.

use std::collections::BTreeMap;

use axum::{extract::State, response::Response};
use http::HeaderMap;
use sandbox_core::{
    ContextName, ErrorCode, ExecutionId, InContext, RunRequest, SessionId, TenantId,
};
use sandbox_execution::ExecutionRequest;
use sandbox_store::AuditAction;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    AppState, HttpSettings,
    caller::Caller,
    executions::EventResponse,
    extract::Json,
    input::{self, InputFile},
    languages::Language,
    problem::{ApiError, ApiResult, Problem},
    run::{self, RunResponse, RunningResponse, Wish},
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
    /// What the program reads from its standard input.
    #[serde(default)]
    stdin: String,
    /// Arguments of the program.
    #[serde(default)]
    args: Vec<String>,
    /// Run it in the interpreter of this name, which stays alive: variables stay for the next run
    /// that names it, the last expression's value and `display()` are in `results`, an exception
    /// is in `error`. Wants a `session_id`; takes no `stdin`, `args` and `env`.
    #[schema(value_type = Option<String>, example = "main")]
    context: Option<ContextName>,
    /// Files that are put in the workspace before the run, at most 256.
    #[serde(default)]
    #[schema(max_items = 256)]
    files: Vec<InputFile>,
}

/// Its figures and `display()` are shown.
const PYTHON: &str = "python";

fn default_language() -> String {
    "python".into()
}

/// Run code
///
/// The workspace is the working directory. The answer is 200 whatever the program did.
#[utoipa::path(
    post, path = "/execute", tag = "run",
    request_body = ExecuteBody,
    responses((status = 200, description = "It ran to its end, or was ended; or its events", content((RunResponse = "application/json"), (EventResponse = "text/event-stream"))), (status = 202, description = "It still runs after `wait_seconds`", body = RunningResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn execute(
    caller: Caller,
    State(state): State<AppState>,
    headers: HeaderMap,
    Json(body): Json<ExecuteBody>,
) -> ApiResult<Response> {
    let settings = &state.settings;
    let language = settings.languages.get(&body.language)?;
    let context = match &body.context {
        Some(name) => Some(in_context(name, &body, language, settings)?),
        None => None,
    };
    let tenant = caller.run_as(body.tenant_id, body.session_id.as_ref())?;
    let timeout = run::timeout(
        &state,
        &tenant,
        body.session_id.as_ref(),
        body.timeout_seconds,
    )?;
    input::environment(&body.env)?;
    input::arguments("args", &body.args)?;
    let code = input::code("code", body.code, settings)?;
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
        files: input::files(body.files)?,
        action: AuditAction::Execute,
        code: code.clone(),
        language: language.name().to_owned(),
        runtime: language.program().to_owned(),
        missing: language.missing(),
        detach: body.detach,
        subject: caller.subject().to_owned(),
        request_id: caller.request_id().map(str::to_owned),
        run: RunRequest {
            program: language.run(code, body.args),
            env: body.env,
            cwd: None,
            stdin: body.stdin.into(),
            timeout,
            output_limit: settings.max_output_bytes,
            live: false,
            spill_limit: settings.spill_bytes,
            context,
            python_display: artifacts.is_some() && language.name() == PYTHON,
            artifacts,
        },
    };
    run::answer(&state, wanted, request).await
}

/// An interpreter that lives on has been started with its arguments and environment.
fn in_context(
    name: &ContextName,
    body: &ExecuteBody,
    language: &Language,
    settings: &HttpSettings,
) -> ApiResult<InContext> {
    if body.session_id.is_none() {
        return Err(ApiError::invalid(
            "`context` wants a `session_id`: without one, the sandbox ends after the run",
        ));
    }
    for (field, is_empty) in [
        ("stdin", body.stdin.is_empty()),
        ("args", body.args.is_empty()),
        ("env", body.env.is_empty()),
    ] {
        if !is_empty {
            return Err(ApiError::invalid(format!(
                "a run in a `context` takes no `{field}`: its interpreter runs already"
            )));
        }
    }
    let driver = language.context().ok_or_else(|| {
        ApiError::new(
            ErrorCode::Unsupported,
            format!("language `{}` has no contexts", language.name()),
        )
    })?;
    Ok(InContext {
        name: name.clone(),
        language: language.name().to_owned(),
        driver,
        limits: settings.contexts,
    })
}
