//! A run that belongs to its caller, from start to end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{ArtifactLimits, Ended, RunResponse, Started, Stream, Termination};
use tokio::{
    io::AsyncWriteExt as _,
    net::unix::pipe,
    sync::{Notify, mpsc, watch},
};
use uuid::Uuid;

use super::{
    Build, EventSender, Extra, Running, ScriptFile, Start, Starter, build,
    capture::{self, Wanted},
    input_pipe, null_input, output_pipe,
    spill::Spilling,
};
use crate::{
    artifacts::{self, Keeper},
    cgroup,
    display::Display,
    error::error,
    life,
    state::Guest,
    supervise::control::Exit,
    warm::{Candidate, Warm},
};

/// Events that may wait for the reader; each output is 32 KiB at most.
pub(crate) const EVENTS_WAITING: usize = 4;
/// 128 + SIGKILL.
const KILLED: i32 = 137;

/// What is run, and within which bounds.
pub(crate) struct RunToEnd {
    pub argv: Vec<String>,
    pub env: std::collections::BTreeMap<String, String>,
    pub cwd: std::path::PathBuf,
    pub script: Option<ScriptFile>,
    pub build: Option<Build>,
    pub stdin: Vec<u8>,
    pub timeout: Duration,
    pub grace: Duration,
    pub output_limit: u64,
    pub live: bool,
    pub spill_limit: u64,
    pub artifacts: Option<ArtifactLimits>,
    pub display: Option<Display>,
    /// It may be forked from what runs already.
    pub warm: Option<(Warm, Candidate)>,
}

/// Starts the run; it is killed when the receiver of its events is dropped.
pub(crate) async fn run_to_end(
    guest: &Arc<Guest>,
    starter: &Starter,
    run: RunToEnd,
) -> Result<mpsc::Receiver<Result<RunResponse, ConnectError>>, ConnectError> {
    let no_pipe = |cause: std::io::Error| {
        error(
            ErrorCode::SandboxExhausted,
            format!("the sandbox has no descriptor left: {cause}"),
        )
    };
    let (stdout, from_stdout) = output_pipe().map_err(no_pipe)?;
    let (stderr, from_stderr) = output_pipe().map_err(no_pipe)?;
    let (stdin, to_stdin) = if run.stdin.is_empty() {
        (null_input().map_err(no_pipe)?, None)
    } else {
        let (theirs, ours) = input_pipe().map_err(no_pipe)?;
        (theirs, Some(ours))
    };
    let began_at = match run.artifacts {
        Some(_) => Some(guest.last_change.begin().await),
        None => None,
    };
    let began = Instant::now();
    let kills_before = cgroup::oom_kills();
    let mut program = Start {
        argv: run.argv,
        env: run.env,
        cwd: run.cwd,
        stdin,
        stdout,
        stderr,
        terminal: false,
    };
    let forked = match (&run.warm, &run.display) {
        (Some((warm, candidate)), Some(display)) => {
            let none = Extra::default();
            warm.fork(candidate, &program, &none, &display.folder())
                .await
        }
        _ => None,
    };
    if let (None, Some(display)) = (&forked, &run.display) {
        display.add_to(&mut program.env, guest).await;
    }
    let is_forked = forked.is_some();
    let steps = match &run.build {
        None => Steps {
            running: match forked {
                Some(running) => running,
                None => starter.start(program).await?,
            },
            next: None,
        },
        Some(build) => Steps {
            running: starter
                .start(build.start(&program).map_err(no_pipe)?)
                .await?,
            next: Some(program),
        },
    };
    let (events, received) = mpsc::channel(EVENTS_WAITING);
    // First, before any output: the channel is new and has room.
    let _ = events.try_send(Ok(started(steps.running.pid)));
    let (ended, has_ended) = watch::channel(false);
    if let Some(pipe) = to_stdin {
        tokio::spawn(feed(pipe, run.stdin, has_ended.clone()));
    }
    let wanted = match run.live {
        true => Wanted::All,
        false => Wanted::HeadAndTail(run.output_limit),
    };
    let over = Arc::new(Notify::new());
    let spilling = (run.spill_limit > 0).then(|| Spilling {
        place: guest.workspace.clone(),
        run: Uuid::now_v7().to_string(),
        kept: run.output_limit,
        limit: run.spill_limit,
        over: Arc::clone(&over),
    });
    let follow = |stream, pipe| {
        capture::follow(
            stream,
            pipe,
            wanted,
            spilling.clone(),
            events.clone(),
            has_ended.clone(),
        )
    };
    let stdout = tokio::spawn(follow(Stream::STREAM_STDOUT, from_stdout));
    let stderr = tokio::spawn(follow(Stream::STREAM_STDERR, from_stderr));
    let starter = starter.clone();
    let guest = Arc::clone(guest);
    let mut keeper = Keeper::new(run.artifacts.as_ref());
    let displaying = run.display.map(|display| {
        let keeper = std::mem::replace(&mut keeper, Keeper::new(None));
        let follow = display.follow(Arc::clone(&guest), keeper, events.clone(), has_ended);
        tokio::spawn(follow)
    });
    tokio::spawn(async move {
        let end = steps
            .until_end(&starter, &events, &over, run.timeout, run.grace)
            .await;
        let wall = began.elapsed();
        let out_of_memory = matches!(
            (kills_before, cgroup::oom_kills()),
            (Some(before), Some(after)) if after > before
        );
        let _ = ended.send(true);
        let stdout = stdout.await.unwrap_or_default();
        let stderr = stderr.await.unwrap_or_default();
        // It may have printed too much and ended before it was stopped.
        let too_much =
            (stdout.is_over || stderr.is_over).then_some(Termination::TERMINATION_OUTPUT_LIMIT);
        drop(run.script);
        let compiler = run.build.as_ref().map(|build| build.program().to_owned());
        if let Some(build) = run.build {
            build.remove().await;
        }
        let end = match (end, compiler) {
            (Ok(end), Some(compiler)) if end.in_compile && end.exit.code == build::NOT_FOUND => {
                Err(error(
                    ErrorCode::NotInstalled,
                    format!("`{compiler}` needs a program that is not installed in the sandbox"),
                ))
            }
            (end, _) => end,
        };
        let End {
            exit,
            cut_short,
            in_compile,
        } = match end {
            Ok(end) => end,
            Err(error) => {
                let _ = events.send(Err(error)).await;
                return;
            }
        };
        if let Some(displaying) = displaying {
            keeper = displaying.await.unwrap_or(keeper);
        }
        let mut looked = false;
        if let Some(since) = began_at {
            (keeper, looked) = artifacts::find(&guest, since, keeper, &events).await;
        }
        guest.last_change.run_ended(looked, &guest.workspace);
        let exit_code = match exit.signal {
            0 => exit.code,
            signal => 128 + signal,
        };
        let by_itself = match exit.signal {
            // The program itself, or one that it had started and speaks for.
            _ if out_of_memory && exit_code == KILLED => Termination::TERMINATION_OUT_OF_MEMORY,
            0 => Termination::TERMINATION_EXITED,
            _ => Termination::TERMINATION_SIGNALED,
        };
        let message = Ended {
            exit_code,
            signal: u32::try_from(exit.signal).unwrap_or(0),
            termination: cut_short.or(too_much).unwrap_or(by_itself).into(),
            wall_us: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX),
            cpu_us: exit.cpu_us,
            max_rss_bytes: exit.max_rss_bytes,
            stdout_bytes: stdout.bytes,
            stderr_bytes: stderr.bytes,
            stdout_file: stdout.file.into(),
            stderr_file: stderr.file.into(),
            in_compile,
            warm: is_forked,
            artifacts_omitted: keeper.omitted(),
            ..Default::default()
        };
        let _ = events
            .send(Ok(RunResponse {
                event: message.into(),
                ..Default::default()
            }))
            .await;
        if let Some((warm, candidate)) = &run.warm {
            warm.prepare_for(candidate);
        }
    });
    Ok(received)
}

/// What a run starts, one after the other.
struct Steps {
    running: Running,
    next: Option<Start>,
}

struct End {
    exit: Exit,
    cut_short: Option<Termination>,
    in_compile: bool,
}

impl Steps {
    /// Both steps within the time of one; the second only when the first went well.
    async fn until_end(
        self,
        starter: &Starter,
        events: &EventSender,
        over: &Notify,
        timeout: Duration,
        grace: Duration,
    ) -> Result<End, ConnectError> {
        let began = life::Began::now();
        let (exit, cut_short) = until_end(self.running, events, over, timeout, grace).await;
        let well = exit.code == 0 && exit.signal == 0 && cut_short.is_none();
        let Some(next) = self.next else {
            return Ok(End {
                exit,
                cut_short,
                in_compile: false,
            });
        };
        if !well {
            return Ok(End {
                exit,
                cut_short,
                in_compile: true,
            });
        }
        let running = starter.start(next).await?;
        let left = timeout.saturating_sub(began.elapsed());
        let (second, cut_short) = until_end(running, events, over, left, grace).await;
        Ok(End {
            exit: Exit {
                cpu_us: exit.cpu_us + second.cpu_us,
                max_rss_bytes: exit.max_rss_bytes.max(second.max_rss_bytes),
                ..second
            },
            cut_short,
            in_compile: false,
        })
    }
}

/// Why the run was cut short, if it was.
async fn until_end(
    mut running: Running,
    events: &EventSender,
    over: &Notify,
    timeout: Duration,
    grace: Duration,
) -> (Exit, Option<Termination>) {
    let cut_short = tokio::select! {
        biased;
        exit = running.ended() => return (exit, None),
        () = life::sleep(timeout) => Termination::TERMINATION_TIMED_OUT,
        () = events.closed() => Termination::TERMINATION_CANCELLED,
        () = over.notified() => Termination::TERMINATION_OUTPUT_LIMIT,
    };
    let grace = match cut_short {
        Termination::TERMINATION_TIMED_OUT => grace,
        _ => Duration::ZERO,
    };
    (running.end(grace).await, Some(cut_short))
}

pub(crate) fn started(pid: i32) -> RunResponse {
    let started = Started {
        pid: u32::try_from(pid).unwrap_or(0),
        ..Default::default()
    };
    RunResponse {
        event: started.into(),
        ..Default::default()
    }
}

async fn feed(mut pipe: pipe::Sender, input: Vec<u8>, mut ended: watch::Receiver<bool>) {
    tokio::select! {
        // A program need not read its input.
        _ = pipe.write_all(&input) => {}
        _ = ended.wait_for(|ended| *ended) => {}
    }
}
