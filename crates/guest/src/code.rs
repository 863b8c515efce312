//! The service `sandbox.v1.Code`.

use std::{path::Path, sync::Arc, time::Duration};

use connectrpc::{RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream};
use futures::stream;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{Code, RunRequest, RunResponse};

use crate::{
    display::Display,
    error::{error, from_io},
    path,
    run::{Build, RunToEnd, ScriptFile, Starter, run_to_end},
    state::Guest,
    warm::Warm,
};

/// Stands for the script's path in an argument.
const FILE: &str = "{file}";
/// Where scripts are compiled to: what is there is no part of the workspace.
const TMP: &str = "/tmp";

pub(crate) struct CodeService {
    guest: Arc<Guest>,
    starter: Starter,
    warm: Option<Warm>,
}

impl CodeService {
    pub fn new(guest: Arc<Guest>, starter: Starter, warm: Option<Warm>) -> Self {
        Self {
            guest,
            starter,
            warm,
        }
    }
}

impl Code for CodeService {
    async fn run(
        &self,
        _context: RequestContext,
        request: ServiceRequest<'_, RunRequest>,
    ) -> ServiceResult<ServiceStream<RunResponse>> {
        let request = request.to_owned_message();
        if request.argv.is_empty() {
            return Err(error(ErrorCode::InvalidRequest, "argv is empty"));
        }
        let workspace = &self.guest.workspace;
        let cwd = if request.cwd.is_empty() {
            workspace.clone()
        } else {
            path::in_workspace(workspace, &request.cwd)?
        };
        let mut env = self.guest.env();
        env.extend(request.env);
        let mut argv = request.argv;
        let mut build = None;
        let mut candidate = None;
        let script = match request.script.into_option() {
            None => None,
            Some(script) => {
                let file = ScriptFile::create(workspace, &script.file_name, &script.source)
                    .map_err(|cause| from_io(&cause, &script.file_name))?;
                let path = file.path().to_string_lossy();
                let mut compile = script.compile;
                for argument in argv.iter_mut().chain(&mut compile) {
                    if argument == FILE {
                        *argument = path.clone().into_owned();
                    }
                }
                if let (Some(warm), true) = (&self.warm, compile.is_empty()) {
                    candidate = warm.candidate(&argv, &path, &script.source);
                }
                if !compile.is_empty() {
                    let tmp = Path::new(TMP);
                    build = Some(
                        Build::prepare(tmp, compile, &mut argv)
                            .map_err(|cause| from_io(&cause, TMP))?,
                    );
                }
                Some(file)
            }
        };
        // A run that cannot display is a run all the same.
        let display = match request.python_display {
            true => Display::prepare(&self.guest).ok(),
            false => None,
        };
        let run = RunToEnd {
            argv,
            env,
            cwd,
            script,
            build,
            stdin: request.stdin,
            timeout: Duration::from_millis(request.timeout_ms.into()),
            grace: Duration::from_millis(request.grace_ms.into()),
            output_limit: request.output_limit_bytes,
            live: request.live,
            spill_limit: request.spill_limit_bytes,
            artifacts: request.artifacts.into_option(),
            display,
            warm: self.warm.clone().zip(candidate),
        };
        let mut events = run_to_end(&self.guest, &self.starter, run).await?;
        Ok(Response::stream(stream::poll_fn(move |cx| {
            events.poll_recv(cx)
        })))
    }
}
