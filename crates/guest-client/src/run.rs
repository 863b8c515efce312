//! Running a program to its end.

use std::time::Duration;

use connectrpc::client::ServerStream;
use hyper::body::Incoming;
use sandbox_core::{
    Artifact, ArtifactLimits, Captured, ContextEnd, Error, ErrorCode, OutputFile, Phase, Raised,
    Result, RunOutcome, RunRequest, Stream, Termination,
};
use sandbox_wire::sandbox::v1::{
    self as wire, __buffa::oneof::run_response::Event, __buffa::view::RunResponseView,
};

use crate::{GuestClient, contexts, error::from_guest};

/// Between SIGTERM and SIGKILL when a run's time is up.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// How much longer than its timeout a run may take before the guest is given up.
const OVERTIME: Duration = Duration::from_secs(15);

/// What happens during a run, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    Output {
        stream: Stream,
        data: Vec<u8>,
        /// Bytes of this stream that were dropped just before `data`.
        omitted_before: u64,
    },
    /// A file, figure or table that the run made.
    Artifact(Artifact),
    /// What the program displayed: a JSON object of MIME type to text.
    Display(String),
    /// The same, of the value of the last expression of code in a context.
    Result(String),
    /// What ended code in a context.
    Raised(Raised),
    Ended(RunEnd),
}

/// The last event of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    pub exit_code: i32,
    pub signal: Option<u32>,
    pub termination: Termination,
    pub phase: Phase,
    pub duration: Duration,
    pub cpu: Duration,
    pub peak_memory_bytes: u64,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub stdout_file: Option<OutputFile>,
    pub stderr_file: Option<OutputFile>,
    pub artifacts_omitted: u32,
    pub warm: bool,
    pub context: Option<ContextEnd>,
}

/// A run under way; dropping it kills the run.
pub struct RunStream {
    events: ServerStream<Incoming, RunResponseView<'static>>,
    output_limit: u64,
    /// How much longer the guest may keep its caller waiting. What the caller
    /// takes between two events is not the guest's fault.
    left: Duration,
}

impl GuestClient {
    /// Starts a run; an error says why the program could not be started.
    pub async fn run(&self, request: RunRequest) -> Result<RunStream> {
        let output_limit = request.output_limit;
        let mut left = request.timeout + GRACE + OVERTIME;
        let call = async {
            let mut events = match request.context {
                Some(_) => self.contexts.run(contexts::message(request)?).await,
                None => self.code.run(message(request)).await,
            }
            .map_err(from_guest)?;
            let first = events.message().await.map_err(from_guest)?;
            Ok((events, first))
        };
        let (events, first) = within(&mut left, call).await?;
        match first.and_then(|message| message.to_owned_message().event) {
            Some(Event::Started(_)) => {}
            _ => return Err(broken("a run that did not start")),
        }
        Ok(RunStream {
            events,
            output_limit,
            left,
        })
    }
}

fn message(request: RunRequest) -> wire::RunRequest {
    let script = request.program.script.map(|script| wire::Script {
        file_name: script.file_name,
        source: script.source.into(),
        compile: script.compile,
        ..Default::default()
    });
    wire::RunRequest {
        argv: request.program.argv,
        script: script.into(),
        env: request.env.into_iter().collect(),
        cwd: request.cwd.unwrap_or_default(),
        stdin: request.stdin.into(),
        timeout_ms: millis(request.timeout),
        grace_ms: millis(GRACE),
        output_limit_bytes: request.output_limit,
        live: request.live,
        spill_limit_bytes: request.spill_limit,
        artifacts: request.artifacts.map(limits).into(),
        python_display: request.python_display,
        ..Default::default()
    }
}

pub(crate) fn limits(limits: ArtifactLimits) -> wire::ArtifactLimits {
    wire::ArtifactLimits {
        max_files: limits.max_files,
        max_file_bytes: limits.max_file_bytes,
        max_total_bytes: limits.max_total_bytes,
        ..Default::default()
    }
}

impl RunStream {
    /// The next event; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<RunEvent>> {
        let next = async { self.events.message().await.map_err(from_guest) };
        let Some(message) = within(&mut self.left, next).await? else {
            return Ok(None);
        };
        let event = message.to_owned_message().event;
        Ok(Some(match event {
            Some(Event::Output(output)) => RunEvent::Output {
                stream: if output.stream == wire::Stream::STREAM_STDERR {
                    Stream::Stderr
                } else {
                    Stream::Stdout
                },
                data: output.data,
                omitted_before: output.omitted_before,
            },
            Some(Event::Artifact(artifact)) => RunEvent::Artifact(found(*artifact)),
            Some(Event::Display(display)) if display.is_result => {
                RunEvent::Result(display.bundle_json)
            }
            Some(Event::Display(display)) => RunEvent::Display(display.bundle_json),
            Some(Event::Raised(raised)) => RunEvent::Raised(Raised {
                name: raised.name,
                value: raised.value,
                traceback: raised.traceback,
            }),
            Some(Event::Ended(ended)) => RunEvent::Ended(run_end(*ended)?),
            _ => return Err(broken("an event that is out of place")),
        }))
    }

    /// Waits for the end and keeps what is printed, within the request's limit.
    pub async fn collect(mut self) -> Result<RunOutcome> {
        let mut collected = Collected::within(self.output_limit);
        while let Some(event) = self.next().await? {
            match event {
                RunEvent::Ended(end) => return Ok(collected.ended(end)),
                event => collected.add(&event),
            }
        }
        Err(ended_early())
    }
}

/// What the events of a run come to.
#[derive(Debug)]
pub struct Collected {
    stdout: Captured,
    stderr: Captured,
    artifacts: Vec<Artifact>,
    raised: Option<Raised>,
}

impl Collected {
    /// Keeps this much of each stream.
    pub fn within(output_limit: u64) -> Self {
        Self {
            stdout: Captured::within(output_limit),
            stderr: Captured::within(output_limit),
            artifacts: Vec::new(),
            raised: None,
        }
    }

    pub fn add(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Output {
                stream,
                data,
                omitted_before,
            } => match stream {
                Stream::Stdout => self.stdout.push(data, *omitted_before),
                Stream::Stderr => self.stderr.push(data, *omitted_before),
            },
            RunEvent::Artifact(artifact) => self.artifacts.push(artifact.clone()),
            RunEvent::Raised(raised) => self.raised = Some(raised.clone()),
            RunEvent::Display(_) | RunEvent::Result(_) | RunEvent::Ended(_) => {}
        }
    }

    /// What was printed so far.
    pub fn output(&self) -> (&Captured, &Captured) {
        (&self.stdout, &self.stderr)
    }

    pub fn artifacts(&self) -> &[Artifact] {
        &self.artifacts
    }

    pub fn ended(self, end: RunEnd) -> RunOutcome {
        RunOutcome {
            stdout: self.stdout,
            stderr: self.stderr,
            exit_code: end.exit_code,
            signal: end.signal,
            termination: end.termination,
            phase: end.phase,
            duration: end.duration,
            cpu: end.cpu,
            peak_memory_bytes: end.peak_memory_bytes,
            stdout_file: end.stdout_file,
            stderr_file: end.stderr_file,
            artifacts: self.artifacts,
            artifacts_omitted: end.artifacts_omitted,
            warm: end.warm,
            raised: self.raised,
            context: end.context,
        }
    }
}

/// The guest closed a run's stream before its end.
pub fn ended_early() -> Error {
    broken("a run without an end")
}

fn found(artifact: wire::Artifact) -> Artifact {
    Artifact {
        id: artifact.id,
        name: artifact.name,
        path: artifact.path,
        stored_path: artifact.stored_path,
        kind: artifact.kind,
        mime_type: artifact.mime_type,
        size_bytes: artifact.size_bytes,
        sha256: hex(&artifact.sha256),
        table: (!artifact.table_json.is_empty()).then_some(artifact.table_json),
    }
}

fn output_file(file: wire::OutputFile) -> OutputFile {
    OutputFile {
        path: file.path,
        size_bytes: file.size_bytes,
        sha256: hex(&file.sha256),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn run_end(ended: wire::Ended) -> Result<RunEnd> {
    let termination = match ended.termination.as_known() {
        Some(wire::Termination::TERMINATION_EXITED) => Termination::Exited,
        Some(wire::Termination::TERMINATION_SIGNALED) => Termination::Signaled,
        Some(wire::Termination::TERMINATION_TIMED_OUT) => Termination::TimedOut,
        Some(wire::Termination::TERMINATION_CANCELLED) => Termination::Cancelled,
        Some(wire::Termination::TERMINATION_OUTPUT_LIMIT) => Termination::OutputLimit,
        Some(wire::Termination::TERMINATION_OUT_OF_MEMORY) => Termination::OutOfMemory,
        _ => return Err(broken("a run that ended for no known reason")),
    };
    Ok(RunEnd {
        exit_code: match termination {
            Termination::TimedOut => 124,
            _ => ended.exit_code,
        },
        signal: (ended.signal != 0).then_some(ended.signal),
        termination,
        phase: if ended.in_compile {
            Phase::Compile
        } else {
            Phase::Run
        },
        duration: Duration::from_micros(ended.wall_us),
        cpu: Duration::from_micros(ended.cpu_us),
        peak_memory_bytes: ended.max_rss_bytes,
        stdout_bytes: ended.stdout_bytes,
        stderr_bytes: ended.stderr_bytes,
        stdout_file: ended.stdout_file.into_option().map(output_file),
        stderr_file: ended.stderr_file.into_option().map(output_file),
        artifacts_omitted: ended.artifacts_omitted,
        warm: ended.warm,
        context: ended.context.into_option().map(|end| contexts::end(&end)),
    })
}

/// Waits for the guest, and takes the wait off what is left.
async fn within<T>(left: &mut Duration, call: impl Future<Output = Result<T>>) -> Result<T> {
    let began = tokio::time::Instant::now();
    let result = tokio::time::timeout(*left, call).await.unwrap_or_else(|_| {
        Err(Error::new(
            ErrorCode::Timeout,
            "the sandbox did not end the run in time",
        ))
    });
    *left = left.saturating_sub(began.elapsed());
    result
}

pub(crate) fn broken(what: &str) -> Error {
    Error::new(ErrorCode::SandboxLost, "the sandbox ended during the call")
        .with_source(format!("the guest sent {what}"))
}

pub(crate) fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
