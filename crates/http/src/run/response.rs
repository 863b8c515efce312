//! The answer of a run.

use std::collections::BTreeMap;

use sandbox_core::{
    Artifact, ContextLoss, ContextName, ExecutionId, Limits, NetworkPolicy, OutputFile, Phase,
    Raised, SessionId, Termination,
};
use sandbox_execution::{Execution, Finished, Snapshot};
use sandbox_session::RunReport;
use serde::Serialize;
use utoipa::ToSchema;

/// What the program printed and how it ended, whatever it did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunResponse {
    /// `finished`.
    #[schema(example = "finished")]
    status: &'static str,
    /// What is not UTF-8 is replaced by U+FFFD; where output was left out, a line says how much.
    stdout: String,
    stderr: String,
    /// 128+N for a signal N, 124 for a timeout, 137 for the memory limit.
    exit_code: i32,
    /// Seconds from the program's start to its end.
    duration: f64,
    /// Output was left out of either stream.
    truncated: bool,
    /// The program was ended because its time was up.
    timed_out: bool,
    /// Files that the run made or changed, its figures and tables; of runs in a session.
    artifacts: Vec<ArtifactResponse>,
    /// What `display()` was given, and in a context the last expression's value and figures:
    /// objects of MIME type to text.
    #[schema(value_type = Vec<BTreeMap<String, String>>)]
    results: Vec<serde_json::Value>,
    /// The exception that ended the code; of runs in a context.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RaisedResponse>,
    /// The interpreter that ran it and stays alive; of runs that named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<RunContext>,
    meta: RunMeta,
    #[schema(value_type = String)]
    execution_id: ExecutionId,
    /// The session that ran it; absent when the sandbox was made for this run alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    session_id: Option<SessionId>,
}

/// An exception, as the language tells it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RaisedResponse {
    #[schema(example = "ZeroDivisionError")]
    name: String,
    #[schema(example = "division by zero")]
    value: String,
    traceback: String,
}

impl From<&Raised> for RaisedResponse {
    fn from(raised: &Raised) -> Self {
        Self {
            name: raised.name.clone(),
            value: raised.value.clone(),
            traceback: raised.traceback.clone(),
        }
    }
}

/// What became of the interpreter that ran the code.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunContext {
    #[schema(value_type = String, example = "main")]
    name: ContextName,
    /// It was started for this run: there was none, or its variables had been lost.
    created: bool,
    /// Its variables are gone; the next run gets a new interpreter.
    lost: bool,
    /// Why: `died` (it ended), `killed` (it could not be interrupted), `broken` (it did not
    /// answer as it should), `stopped` (it was deleted or restarted).
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// Which of `results` is the value of the last expression, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    main_result: Option<usize>,
}

impl RunContext {
    fn of(execution: &Execution, report: &RunReport, main_result: Option<usize>) -> Option<Self> {
        let name = execution.context()?.clone();
        let outcome = &report.outcome;
        Some(match outcome.context {
            Some(end) => Self {
                name,
                created: end.created,
                lost: end.loss.is_some(),
                reason: end.loss.map(ContextLoss::as_str),
                main_result,
            },
            None => {
                let lost = outcome.termination == Termination::SandboxLost;
                Self {
                    name,
                    created: false,
                    lost,
                    reason: lost.then_some(ContextLoss::Died.as_str()),
                    main_result,
                }
            }
        })
    }
}

/// What a run has come to so far.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunningResponse {
    /// `running`: ask again for `executions/{execution_id}`.
    #[schema(example = "running")]
    status: &'static str,
    stdout: String,
    stderr: String,
    /// Seconds since the program started.
    duration: f64,
    truncated: bool,
    artifacts: Vec<ArtifactResponse>,
    #[schema(value_type = Vec<BTreeMap<String, String>>)]
    results: Vec<serde_json::Value>,
    #[schema(value_type = String)]
    execution_id: ExecutionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    session_id: Option<SessionId>,
    /// `executions/{execution_id}/events?after=` with this number continues the output above.
    last_event: u64,
}

impl RunningResponse {
    pub(crate) fn new(execution: &Execution, snapshot: Snapshot) -> Self {
        Self {
            status: "running",
            stdout: snapshot.stdout,
            stderr: snapshot.stderr,
            duration: snapshot.running.as_secs_f64(),
            truncated: snapshot.truncated,
            artifacts: snapshot.artifacts.iter().map(Into::into).collect(),
            results: bundles(&snapshot.displayed),
            execution_id: execution.id().clone(),
            session_id: execution.session().cloned(),
            last_event: snapshot.last_event,
        }
    }
}

/// Where and under which limits the program ran.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunMeta {
    backend: &'static str,
    /// The program that ran the code.
    runtime: String,
    language: String,
    /// The sandbox was made for this call: the session is new, or its sandbox had died.
    session_created: bool,
    limits: LimitsResponse,
    /// Which mechanism enforces which limit, for example `memory`: `cgroup v2`.
    enforcement: BTreeMap<&'static str, &'static str>,
    #[schema(value_type = String, example = "disabled")]
    network: NetworkPolicy,
    /// `exited`, `signaled`, `timed_out`, `out_of_memory`, `output_limit`, `cancelled` or
    /// `sandbox_lost`.
    #[schema(value_type = String, example = "exited")]
    termination: Termination,
    /// In which step it ended: `run`, or `compile` when the program was not started.
    #[schema(value_type = String, example = "run")]
    phase: Phase,
    /// The number of the signal that ended the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<u32>,
    /// The memory limit ended the program.
    oom_killed: bool,
    /// The stream's full size, before any cut.
    stdout_bytes: u64,
    stderr_bytes: u64,
    /// All of the stream, where not all of it is in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_file: Option<OutputFileResponse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_file: Option<OutputFileResponse>,
    /// Files that the run made and that were too many or too large to be kept.
    artifacts_omitted: u32,
    /// It was forked from an interpreter that had started before; in a context, its
    /// interpreter was.
    warm: bool,
    usage: RunUsage,
}

/// A stream that was larger than what is shown of it, in a file of the workspace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutputFileResponse {
    /// For /read and /read_binary.
    path: String,
    size_bytes: u64,
    sha256: String,
}

impl From<&OutputFile> for OutputFileResponse {
    fn from(file: &OutputFile) -> Self {
        Self {
            path: file.path.clone(),
            size_bytes: file.size_bytes,
            sha256: file.sha256.clone(),
        }
    }
}

/// What the program and the children that it waited for took.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunUsage {
    cpu_seconds: f64,
    /// Largest resident size of one process of the run.
    peak_memory_bytes: u64,
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

/// A file, figure or table that a run made; a copy of it is kept as it was.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ArtifactResponse {
    /// For `GET /artifacts/{id}`.
    id: String,
    #[schema(example = "plot.png")]
    name: String,
    /// Where the program put it, relative to the workspace.
    path: String,
    /// `plot`, `image`, `table`, `report`, `archive` or `file`.
    #[schema(example = "plot")]
    kind: String,
    #[schema(example = "image/png")]
    mime_type: String,
    size_bytes: u64,
    sha256: String,
    /// Of a table: schema, preview rows and further formats.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    table: Option<serde_json::Value>,
}

impl From<&Artifact> for ArtifactResponse {
    fn from(artifact: &Artifact) -> Self {
        Self {
            id: artifact.id.clone(),
            name: artifact.name.clone(),
            path: artifact.path.clone(),
            kind: artifact.kind.clone(),
            mime_type: artifact.mime_type.clone(),
            size_bytes: artifact.size_bytes,
            sha256: artifact.sha256.clone(),
            table: artifact.table.as_deref().and_then(json),
        }
    }
}

impl From<&sandbox_store::ArtifactRecord> for ArtifactResponse {
    fn from(record: &sandbox_store::ArtifactRecord) -> Self {
        Self {
            id: record.id.clone(),
            name: record.name.clone(),
            path: record.path.clone(),
            kind: record.kind.clone(),
            mime_type: record.mime_type.clone(),
            size_bytes: record.size_bytes,
            sha256: record.sha256.clone(),
            table: record.table.as_deref().and_then(json),
        }
    }
}

/// It comes from inside the sandbox: what is not JSON is not shown.
fn json(text: &str) -> Option<serde_json::Value> {
    serde_json::from_str(text).ok()
}

pub(super) fn bundles(displayed: &[String]) -> Vec<serde_json::Value> {
    displayed
        .iter()
        .filter_map(|bundle| json(bundle))
        .filter(serde_json::Value::is_object)
        .collect()
}

pub(crate) fn run_response(
    execution: &Execution,
    report: &RunReport,
    finished: &Finished,
) -> RunResponse {
    let (outcome, place) = (&report.outcome, &report.place);
    RunResponse {
        status: "finished",
        stdout: outcome.stdout.to_text(),
        stderr: outcome.stderr.to_text(),
        exit_code: outcome.exit_code,
        duration: outcome.duration.as_secs_f64(),
        truncated: outcome.stdout.truncated() || outcome.stderr.truncated(),
        timed_out: outcome.termination == Termination::TimedOut,
        artifacts: outcome.artifacts.iter().map(Into::into).collect(),
        results: bundles(&finished.displayed),
        error: outcome.raised.as_ref().map(Into::into),
        context: RunContext::of(execution, report, finished.main_result),
        meta: RunMeta {
            backend: place.backend,
            runtime: execution.runtime().to_owned(),
            language: execution.language().to_owned(),
            session_created: place.session_created,
            limits: LimitsResponse::from(&place.spec.limits),
            enforcement: place.enforcement.clone(),
            network: place.spec.network,
            termination: outcome.termination,
            phase: outcome.phase,
            signal: outcome.signal,
            oom_killed: outcome.termination == Termination::OutOfMemory,
            stdout_bytes: outcome.stdout.total_bytes(),
            stderr_bytes: outcome.stderr.total_bytes(),
            stdout_file: outcome.stdout_file.as_ref().map(Into::into),
            stderr_file: outcome.stderr_file.as_ref().map(Into::into),
            artifacts_omitted: outcome.artifacts_omitted,
            warm: outcome.warm,
            usage: RunUsage {
                cpu_seconds: outcome.cpu.as_secs_f64(),
                peak_memory_bytes: outcome.peak_memory_bytes,
            },
        },
        execution_id: execution.id().clone(),
        session_id: place.session.clone(),
    }
}
