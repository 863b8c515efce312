//! Running a program to its end.

use std::time::Duration;

use connectrpc::client::{CallOptions, ServerStream};
use hyper::body::Incoming;
use sandbox_core::{
    Captured, Error, ErrorCode, Result, RunOutcome, RunRequest, Stream, Termination,
};
use sandbox_wire::sandbox::v1::{
    self as wire, __buffa::oneof::run_response::Event, __buffa::view::RunResponseView,
};

use crate::{GuestClient, error::from_guest};

/// Between SIGTERM and SIGKILL when a run's time is up.
const GRACE: Duration = Duration::from_secs(2);
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
    Ended(RunEnd),
}

/// The last event of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    pub exit_code: i32,
    pub signal: Option<u32>,
    pub termination: Termination,
    pub duration: Duration,
    pub cpu: Duration,
    pub peak_memory_bytes: u64,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

/// A run under way; dropping it kills the run.
pub struct RunStream {
    events: ServerStream<Incoming, RunResponseView<'static>>,
    output_limit: u64,
}

impl GuestClient {
    /// Starts a run; an error says why the program could not be started.
    pub async fn run(&self, request: RunRequest) -> Result<RunStream> {
        let output_limit = request.output_limit;
        let options = CallOptions::default().with_timeout(request.timeout + GRACE + OVERTIME);
        let script = request.program.script.map(|script| wire::Script {
            file_name: script.file_name,
            source: script.source.into(),
            ..Default::default()
        });
        let message = wire::RunRequest {
            argv: request.program.argv,
            script: script.into(),
            env: request.env.into_iter().collect(),
            cwd: request.cwd.unwrap_or_default(),
            stdin: request.stdin.into(),
            timeout_ms: millis(request.timeout),
            grace_ms: millis(GRACE),
            output_limit_bytes: output_limit,
            ..Default::default()
        };
        let mut events = self
            .code
            .run_with_options(message, options)
            .await
            .map_err(from_guest)?;
        let first = events.message().await.map_err(from_guest)?;
        match first.and_then(|message| message.to_owned_message().event) {
            Some(Event::Started(_)) => {}
            _ => return Err(broken("a run that did not start")),
        }
        Ok(RunStream {
            events,
            output_limit,
        })
    }
}

impl RunStream {
    /// The next event; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<RunEvent>> {
        let Some(message) = self.events.message().await.map_err(from_guest)? else {
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
            Some(Event::Ended(ended)) => RunEvent::Ended(run_end(&ended)?),
            _ => return Err(broken("an event that is out of place")),
        }))
    }

    /// Waits for the end and keeps what is printed, within the request's limit.
    pub async fn collect(mut self) -> Result<RunOutcome> {
        let mut stdout = Captured::default();
        let mut stderr = Captured::default();
        while let Some(event) = self.next().await? {
            match event {
                RunEvent::Output {
                    stream,
                    data,
                    omitted_before,
                } => {
                    let kept = match stream {
                        Stream::Stdout => &mut stdout,
                        Stream::Stderr => &mut stderr,
                    };
                    // The guest cuts; this only holds when it does not.
                    if kept.len() as u64 + data.len() as u64 > self.output_limit {
                        return Err(broken("more output than was asked for"));
                    }
                    kept.push(&data, omitted_before);
                }
                RunEvent::Ended(end) => {
                    stdout.total_bytes = end.stdout_bytes;
                    stderr.total_bytes = end.stderr_bytes;
                    return Ok(RunOutcome {
                        stdout,
                        stderr,
                        exit_code: end.exit_code,
                        signal: end.signal,
                        termination: end.termination,
                        duration: end.duration,
                        cpu: end.cpu,
                        peak_memory_bytes: end.peak_memory_bytes,
                    });
                }
            }
        }
        Err(broken("a run without an end"))
    }
}

fn run_end(ended: &wire::Ended) -> Result<RunEnd> {
    let termination = match ended.termination.as_known() {
        Some(wire::Termination::TERMINATION_EXITED) => Termination::Exited,
        Some(wire::Termination::TERMINATION_SIGNALED) => Termination::Signaled,
        Some(wire::Termination::TERMINATION_TIMED_OUT) => Termination::TimedOut,
        Some(wire::Termination::TERMINATION_CANCELLED) => Termination::Cancelled,
        _ => return Err(broken("a run that ended for no known reason")),
    };
    Ok(RunEnd {
        exit_code: match termination {
            Termination::TimedOut => 124,
            _ => ended.exit_code,
        },
        signal: (ended.signal != 0).then_some(ended.signal),
        termination,
        duration: Duration::from_micros(ended.wall_us),
        cpu: Duration::from_micros(ended.cpu_us),
        peak_memory_bytes: ended.max_rss_bytes,
        stdout_bytes: ended.stdout_bytes,
        stderr_bytes: ended.stderr_bytes,
    })
}

fn broken(what: &str) -> Error {
    Error::new(ErrorCode::SandboxLost, "the sandbox ended during the call")
        .with_source(format!("the guest sent {what}"))
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
