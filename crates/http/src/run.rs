//! A run and its answer, shared by /execute and /bash.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use guest_client::messages::WriteRequest;
use sandbox_core::{
    Error, ErrorCode, Limits, NetworkPolicy, RunRequest, SessionId, TenantId, Termination,
};
use sandbox_session::RunReport;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{AppState, problem::ApiResult};

/// The outcome, in the metrics, of a run whose client went away.
const DISCONNECTED: &str = "disconnected";

/// What the program printed and how it ended, whatever it did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunResponse {
    /// What is not UTF-8 is replaced by U+FFFD; where output was left out, a line says how much.
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// 128+N for a signal N, 124 for a timeout, 137 for the memory limit.
    pub(crate) exit_code: i32,
    /// Seconds from the program's start to its end.
    pub(crate) duration: f64,
    /// Output was left out of either stream.
    pub(crate) truncated: bool,
    /// The program was ended because its time was up.
    pub(crate) timed_out: bool,
    pub(crate) meta: RunMeta,
    /// The name of this run in the service's log.
    pub(crate) execution_id: String,
    /// The session that ran it; absent when the sandbox was made for this run alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) session_id: Option<SessionId>,
}

/// Where and under which limits the program ran.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunMeta {
    pub(crate) backend: &'static str,
    /// The program that ran the code.
    pub(crate) runtime: String,
    pub(crate) language: String,
    /// The sandbox was made for this call: the session is new, or its sandbox had died.
    pub(crate) session_created: bool,
    pub(crate) limits: LimitsResponse,
    /// Which mechanism enforces which limit, for example `memory`: `cgroup v2`.
    pub(crate) enforcement: BTreeMap<&'static str, &'static str>,
    #[schema(value_type = String, example = "disabled")]
    pub(crate) network: NetworkPolicy,
    /// `exited`, `signaled`, `timed_out`, `out_of_memory` or `cancelled`.
    #[schema(value_type = String, example = "exited")]
    pub(crate) termination: Termination,
    /// The number of the signal that ended the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<u32>,
    /// The memory limit ended the program.
    pub(crate) oom_killed: bool,
    /// The stream's full size, before any cut.
    pub(crate) stdout_bytes: u64,
    pub(crate) stderr_bytes: u64,
    pub(crate) usage: RunUsage,
}

/// What the program and the children that it waited for took.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunUsage {
    pub(crate) cpu_seconds: f64,
    /// Largest resident size of one process of the run.
    pub(crate) peak_memory_bytes: u64,
}

/// The ceiling of the sandbox, all its processes together.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LimitsResponse {
    /// Memory, and tmpfs with it.
    memory_bytes: u64,
    /// Processors; 0.5 is half of one.
    cpus: f64,
    /// Processes and threads.
    pids: u32,
    /// Of the workspace.
    disk_bytes: u64,
    /// Of each of /tmp, /var/tmp and /dev/shm.
    tmp_bytes: u64,
}

impl From<&Limits> for LimitsResponse {
    fn from(limits: &Limits) -> Self {
        Self {
            memory_bytes: limits.memory.bytes(),
            cpus: limits.cpus,
            pids: limits.pids,
            disk_bytes: limits.disk.bytes(),
            tmp_bytes: limits.tmp.bytes(),
        }
    }
}

/// A request to run something, checked.
pub(crate) struct Run {
    pub(crate) tenant: TenantId,
    pub(crate) session: Option<SessionId>,
    pub(crate) files: Vec<WriteRequest>,
    pub(crate) request: RunRequest,
    pub(crate) language: String,
    pub(crate) runtime: String,
}

impl Run {
    /// Runs it to its end; dropping the future kills it.
    pub(crate) async fn answer(self, state: &AppState) -> ApiResult<RunResponse> {
        let mut watch = Watch::new(state, &self.language);
        let result = state
            .sessions
            .run(
                &self.tenant,
                self.session.as_ref(),
                self.files,
                self.request,
            )
            .await;
        match result {
            Ok(report) => {
                watch.ended(report.backend, report.outcome.termination.as_str());
                Ok(respond(report, self.language, self.runtime))
            }
            Err(error) => {
                watch.ended(state.default_backend(), error.code().as_str());
                Err(name_language(error, &self.language, &self.runtime).into())
            }
        }
    }
}

/// The guest knows the program that is missing, not the language that needs it.
fn name_language(error: Error, language: &str, runtime: &str) -> Error {
    if error.code() != ErrorCode::NotInstalled {
        return error;
    }
    let detail =
        format!("language `{language}` needs `{runtime}`, which is not installed in the sandbox");
    Error::new(ErrorCode::NotInstalled, detail).with_source(error)
}

fn respond(report: RunReport, language: String, runtime: String) -> RunResponse {
    let outcome = report.outcome;
    RunResponse {
        stdout: outcome.stdout.to_text(),
        stderr: outcome.stderr.to_text(),
        exit_code: outcome.exit_code,
        duration: outcome.duration.as_secs_f64(),
        truncated: outcome.stdout.truncated() || outcome.stderr.truncated(),
        timed_out: outcome.termination == Termination::TimedOut,
        meta: RunMeta {
            backend: report.backend,
            runtime,
            language,
            session_created: report.session_created,
            limits: LimitsResponse::from(&report.spec.limits),
            enforcement: report.enforcement,
            network: report.spec.network,
            termination: outcome.termination,
            signal: outcome.signal,
            oom_killed: outcome.termination == Termination::OutOfMemory,
            stdout_bytes: outcome.stdout.total_bytes(),
            stderr_bytes: outcome.stderr.total_bytes(),
            usage: RunUsage {
                cpu_seconds: outcome.cpu.as_secs_f64(),
                peak_memory_bytes: outcome.peak_memory_bytes,
            },
        },
        execution_id: report.execution_id,
        session_id: report.session,
    }
}

/// Counts a run once: with its end, or when it is dropped without one.
struct Watch<'a> {
    state: &'a AppState,
    language: String,
    started: Instant,
    ended: bool,
}

impl<'a> Watch<'a> {
    fn new(state: &'a AppState, language: &str) -> Self {
        Self {
            state,
            language: language.to_owned(),
            started: Instant::now(),
            ended: false,
        }
    }

    fn ended(&mut self, backend: &str, outcome: &str) {
        self.ended = true;
        let took: Duration = self.started.elapsed();
        self.state
            .metrics
            .run_ended(backend, &self.language, outcome, took);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.ended(self.state.default_backend(), DISCONNECTED);
        }
    }
}
