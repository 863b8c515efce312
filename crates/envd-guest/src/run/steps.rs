//! A run from start to end, which belongs to its caller.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use connectrpc::ConnectError;
use guest_parts::{
    error::error,
    output::{EventSender, Kept, Wanted},
};
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{Ended, OutputFile, RunResponse, Started, Stream, Termination};
use tokio::{
    sync::{Notify, mpsc},
    time::timeout,
};

use super::{
    Leftover,
    build::{Build, NOT_FOUND},
    end::{Mark, end_all, marked},
    program::{Captured, Output, Program, Start, feed, look_for_end},
    spill::{Spill, Spilling},
    told::{Exit, KILLED},
};
use crate::{
    envd::CALL_LIMIT,
    state::{State, random},
};

/// Events that may wait for the reader; each output is 32 KiB at most.
const EVENTS_WAITING: usize = 4;
/// How long the end of a program may take to be told once it was killed.
const END_LIMIT: Duration = Duration::from_secs(8);
/// After a run's own limit envd ends it: this service must be gone.
const ABANDONED: Duration = Duration::from_secs(60);

/// What is run, and within which bounds.
pub(super) struct Run {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub mark: Mark,
    pub script: Option<Leftover>,
    pub build: Option<Build>,
    pub stdin: Vec<u8>,
    pub timeout: Duration,
    pub grace: Duration,
    pub output_limit: u64,
    pub live: bool,
    pub spill_limit: u64,
}

struct End {
    exit: Exit,
    cut_short: Option<Termination>,
    in_compile: bool,
}

impl Run {
    /// It is killed when the receiver of its events is dropped.
    pub async fn start(
        self,
        state: Arc<State>,
    ) -> Result<mpsc::Receiver<Result<RunResponse, ConnectError>>, ConnectError> {
        let began = Instant::now();
        let first = match &self.build {
            Some(build) => self.start_program(&state, &build.argv, false).await?,
            None => {
                self.start_program(&state, &self.argv, !self.stdin.is_empty())
                    .await?
            }
        };
        let (events, received) = mpsc::channel(EVENTS_WAITING);
        // First, before any output: the channel is new and has room.
        let _ = events.try_send(Ok(started(first.pid)));
        tokio::spawn(async move {
            let last = match self.until_told(&state, first, began, &events).await {
                Ok(ended) => Ok(RunResponse {
                    event: ended.into(),
                    ..Default::default()
                }),
                Err(cause) => Err(cause),
            };
            let _ = events.send(last).await;
        });
        Ok(received)
    }

    async fn start_program(
        &self,
        state: &State,
        argv: &[String],
        stdin: bool,
    ) -> Result<Program, ConnectError> {
        let start = Start {
            argv,
            env: &self.env,
            cwd: &self.cwd,
            mark: &self.mark,
            stdin,
            limit: self.timeout + self.grace + ABANDONED,
        };
        Program::start(&state.envd, start).await
    }

    async fn until_told(
        mut self,
        state: &Arc<State>,
        first: Program,
        began: Instant,
        events: &EventSender,
    ) -> Result<Ended, ConnectError> {
        let over = Arc::new(Notify::new());
        let mut output = self.output(state, events, &over);
        let end = self
            .steps(state, first, began, events, &over, &mut output)
            .await;
        let wall = began.elapsed();
        let is_over = |it: &Captured| it.spill.as_ref().is_some_and(Spill::is_over);
        // It may have printed too much and ended before it was stopped.
        let too_much = (is_over(&output.stdout) || is_over(&output.stderr))
            .then_some(Termination::TERMINATION_OUTPUT_LIMIT);
        let (stdout_bytes, stdout_file) = finish(output.stdout).await;
        let (stderr_bytes, stderr_file) = finish(output.stderr).await;
        if let Some(script) = self.script.take() {
            script.remove().await;
        }
        if let Some(build) = self.build.take() {
            build.remove().await;
        }
        let end = end?;
        let exit_code = match end.exit.signal {
            0 => end.exit.code,
            signal => 128 + signal,
        };
        let by_itself = match end.exit.signal {
            0 => Termination::TERMINATION_EXITED,
            _ => Termination::TERMINATION_SIGNALED,
        };
        Ok(Ended {
            exit_code,
            signal: u32::try_from(end.exit.signal).unwrap_or(0),
            termination: end.cut_short.or(too_much).unwrap_or(by_itself).into(),
            wall_us: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX),
            stdout_bytes,
            stderr_bytes,
            stdout_file: stdout_file.into(),
            stderr_file: stderr_file.into(),
            in_compile: end.in_compile,
            ..Default::default()
        })
    }

    fn output(&self, state: &Arc<State>, events: &EventSender, over: &Arc<Notify>) -> Output {
        let wanted = match self.live {
            true => Wanted::All,
            false => Wanted::HeadAndTail(self.output_limit),
        };
        let spilling = (self.spill_limit > 0).then(|| Spilling {
            place: Arc::clone(state),
            run: random(),
            kept: self.output_limit,
            limit: self.spill_limit,
            over: Arc::clone(over),
        });
        let captured = |stream, name| Captured {
            kept: Kept::new(stream, wanted, events.clone()),
            spill: spilling.clone().map(|to| Spill::new(to, name)),
        };
        Output {
            stdout: captured(Stream::STREAM_STDOUT, "stdout"),
            stderr: captured(Stream::STREAM_STDERR, "stderr"),
            all_to_stderr: false,
        }
    }

    /// Both steps within the time of one; the second only when the first went well.
    async fn steps(
        &self,
        state: &State,
        first: Program,
        began: Instant,
        events: &EventSender,
        over: &Notify,
        output: &mut Output,
    ) -> Result<End, ConnectError> {
        let Some(build) = &self.build else {
            let (exit, cut_short) = self
                .until_end(state, first, began, events, over, output)
                .await?;
            self.check_installed(state, &exit, output, &self.argv)
                .await?;
            return Ok(End {
                exit,
                cut_short,
                in_compile: false,
            });
        };
        output.all_to_stderr = true;
        let (exit, cut_short) = self
            .until_end(state, first, began, events, over, output)
            .await?;
        output.all_to_stderr = false;
        if exit.code == NOT_FOUND {
            return Err(error(
                ErrorCode::NotInstalled,
                format!(
                    "`{}` needs a program that is not installed in the sandbox",
                    build.program()
                ),
            ));
        }
        if exit.code != 0 || exit.signal != 0 || cut_short.is_some() {
            return Ok(End {
                exit,
                cut_short,
                in_compile: true,
            });
        }
        let program = self
            .start_program(state, &self.argv, !self.stdin.is_empty())
            .await?;
        let (exit, cut_short) = self
            .until_end(state, program, began, events, over, output)
            .await?;
        Ok(End {
            exit,
            cut_short,
            in_compile: false,
        })
    }

    /// Why the run was cut short, if it was.
    async fn until_end(
        &self,
        state: &State,
        mut program: Program,
        began: Instant,
        events: &EventSender,
        over: &Notify,
        output: &mut Output,
    ) -> Result<(Exit, Option<Termination>), ConnectError> {
        let envd = &state.envd;
        let pid = program.pid;
        // The input is the program's alone.
        let has_input = !self.stdin.is_empty() && !output.all_to_stderr;
        let feeding = async {
            if has_input {
                feed(envd, &self.mark, Bytes::copy_from_slice(&self.stdin)).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::pin!(feeding);
        let follow = program.follow(output);
        tokio::pin!(follow);
        let cut_short = tokio::select! {
            biased;
            exit = &mut follow => return Ok((exit?, None)),
            () = tokio::time::sleep(self.timeout.saturating_sub(began.elapsed())) => {
                Termination::TERMINATION_TIMED_OUT
            }
            () = events.closed() => Termination::TERMINATION_CANCELLED,
            () = over.notified() => Termination::TERMINATION_OUTPUT_LIMIT,
            () = look_for_end(envd, &self.mark, pid) => Termination::TERMINATION_CANCELLED,
            () = &mut feeding => Termination::TERMINATION_CANCELLED,
        };
        let grace = match cut_short {
            Termination::TERMINATION_TIMED_OUT => self.grace,
            _ => Duration::ZERO,
        };
        // A task, which goes on when nobody waits for it any more.
        let (envd, mark) = (envd.clone(), self.mark.clone());
        let ending = tokio::spawn(async move {
            end_all(&envd, &mark, marked(&mark), grace).await;
        });
        // Its last words are taken meanwhile.
        let limit = grace + END_LIMIT;
        let (exit, _) = tokio::join!(timeout(limit, &mut follow), timeout(limit, ending));
        let exit = match exit {
            Ok(Ok(exit)) => exit,
            Ok(Err(_)) | Err(_) => KILLED,
        };
        Ok((exit, Some(cut_short)))
    }

    /// envd starts programs by a shell, which says of one that is not there what any
    /// program may say: so it is looked for.
    async fn check_installed(
        &self,
        state: &State,
        exit: &Exit,
        output: &Output,
        argv: &[String],
    ) -> Result<(), ConnectError> {
        let program = argv.first().map_or("", String::as_str);
        if exit.code != NOT_FOUND || output.stdout.kept.total() > 0 {
            return Ok(());
        }
        let look = ["/bin/sh", "-c", "command -v -- \"$1\"", "sh", program];
        match state.envd.tool(&look, CALL_LIMIT).await {
            Ok(said) if said.code != 0 => Err(error(
                ErrorCode::NotInstalled,
                format!("`{program}` is not installed in the sandbox"),
            )),
            _ => Ok(()),
        }
    }
}

async fn finish(captured: Captured) -> (u64, Option<OutputFile>) {
    let bytes = captured.kept.finish().await;
    let file = match captured.spill {
        Some(spill) => spill.finish().await,
        None => None,
    };
    (bytes, file)
}

fn started(pid: u32) -> RunResponse {
    let started = Started {
        pid,
        ..Default::default()
    };
    RunResponse {
        event: started.into(),
        ..Default::default()
    }
}
