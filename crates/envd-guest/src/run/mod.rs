//! The service `sandbox.v1.Code`: programs run to their end.

mod build;
mod end;
mod program;
mod spill;
mod steps;
mod told;

use std::{path::PathBuf, sync::Arc, time::Duration};

use connectrpc::{
    ConnectError, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream,
};
use futures::stream;
use guest_parts::{error::error, path};
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{Code, RunRequest, RunResponse};
use tokio::time::timeout;

use crate::state::{State, random};
use build::Build;
pub(crate) use end::{Mark, end_all};
use steps::Run;
pub(crate) use told::start_error;

/// How long a run waits for the removal of what it was given.
const REMOVE_LIMIT: Duration = Duration::from_secs(2);
/// Stands for the script's path in an argument.
const FILE: &str = "{file}";

pub(crate) struct CodeService(pub Arc<State>);

impl Code for CodeService {
    async fn run(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RunRequest>,
    ) -> ServiceResult<ServiceStream<RunResponse>> {
        let state = Arc::clone(&self.0);
        let run = prepare(&state, request.to_owned_message()).await?;
        let mut events = run.start(state).await?;
        Ok(Response::stream(stream::poll_fn(move |cx| {
            events.poll_recv(cx)
        })))
    }
}

async fn prepare(state: &Arc<State>, request: RunRequest) -> Result<Run, ConnectError> {
    if request.argv.is_empty() {
        return Err(error(ErrorCode::InvalidRequest, "argv is empty"));
    }
    let mut cwd = state.workspace.clone();
    if !request.cwd.is_empty() {
        cwd = path::in_workspace(&state.workspace, &request.cwd)?;
        // envd's own answer does not tell it from a program that is not there.
        if state.envd.folder(&cwd, &request.cwd).await.is_err() {
            return Err(error(
                ErrorCode::InvalidPath,
                "the working directory does not exist",
            ));
        }
    }
    let mark = Mark::new();
    let mut env = state.env();
    env.extend(request.env);
    let (name, value) = mark.variable();
    env.insert(name, value);
    let mut argv = request.argv;
    // From here on, what was made is removed when it is dropped.
    let mut script = None;
    let mut build = None;
    if let Some(given) = request.script.into_option() {
        let place = script_path(state, &given.file_name);
        let path = crate::envd::text(&place)?;
        let file = Leftover::new(state, place.clone());
        state
            .envd
            .put(&place, &given.source, &given.file_name)
            .await?;
        let mut compile = given.compile;
        for word in argv.iter_mut().chain(&mut compile) {
            if word == FILE {
                word.clone_from(&path);
            }
        }
        script = Some(file);
        if !compile.is_empty() {
            build = Some(Build::prepare(state, compile, &mut argv).await?);
        }
    }
    Ok(Run {
        argv,
        env,
        cwd,
        mark,
        script,
        build,
        stdin: request.stdin,
        timeout: Duration::from_millis(request.timeout_ms.into()),
        grace: Duration::from_millis(request.grace_ms.into()),
        output_limit: request.output_limit_bytes,
        live: request.live,
        spill_limit: request.spill_limit_bytes,
    })
}

/// In the workspace, so that a program finds its neighbours as a file there would:
/// `main.py` becomes `.main-<random>.py`.
fn script_path(state: &State, file_name: &str) -> PathBuf {
    let given = std::path::Path::new(file_name);
    let stem = given.file_stem().unwrap_or_default().to_string_lossy();
    let extension = given.extension().unwrap_or_default().to_string_lossy();
    let random = &random()[..12];
    state
        .workspace
        .join(format!(".{stem}-{random}.{extension}"))
}

/// What a run has put into the sandbox; removed when dropped.
struct Leftover(Option<(Arc<State>, PathBuf)>);

impl Leftover {
    fn new(state: &Arc<State>, path: PathBuf) -> Self {
        Self(Some((Arc::clone(state), path)))
    }

    /// Waits for it, so that nobody finds it after the run, but not for ever.
    async fn remove(mut self) {
        if let Some((state, path)) = self.0.take() {
            let removing = tokio::spawn(async move {
                let _ = state.envd.remove_all(&path, "the script").await;
            });
            let _ = timeout(REMOVE_LIMIT, removing).await;
        }
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        // A run that did not begin; nobody waits for this.
        if let (Some((state, path)), Ok(runtime)) =
            (self.0.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(async move {
                let _ = state.envd.remove_all(&path, "the script").await;
            });
        }
    }
}
