//! One process: its input, those who follow its output, and its end.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex as StdMutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use connectrpc::ConnectError;
use rustix::process::Signal;
use sandbox_core::ErrorCode;
use sandbox_wire::process::{
    __buffa::oneof::process_event::{Event, data_event},
    ProcessConfig, ProcessEvent,
    process_event::{DataEvent, EndEvent, StartEvent},
};
use tokio::{
    io::AsyncWriteExt as _,
    net::unix::pipe,
    sync::{Mutex, mpsc, watch},
};

use super::terminal::Terminal;
use crate::{
    error::error,
    life,
    run::{Control, Running, Sink, read_all},
    supervise::control::Exit,
};

/// Events that may wait for one follower before the process waits.
const EVENTS_WAITING: usize = 8;

pub(super) type Followers = mpsc::Receiver<ProcessEvent>;

/// Where a process reads from.
pub(super) enum Input {
    None,
    Pipe(pipe::Sender),
    Terminal(pipe::Sender),
}

/// What a process prints to.
pub(super) enum Output {
    Pipes(pipe::Receiver, pipe::Receiver),
    Terminal(pipe::Receiver, Terminal),
}

/// The guest's ends of a process's streams.
pub(super) struct Streams {
    pub input: Input,
    pub output: Output,
}

#[derive(Clone, Copy)]
enum Source {
    Stdout,
    Stderr,
    Terminal,
}

pub(super) struct Followed {
    pub pid: u32,
    pub tag: Option<String>,
    pub config: ProcessConfig,
    input: Mutex<Input>,
    terminal: Option<Terminal>,
    control: Control,
    followers: StdMutex<Vec<mpsc::Sender<ProcessEvent>>>,
    end: watch::Receiver<Option<EndEvent>>,
    timed_out: AtomicBool,
}

impl Followed {
    /// Follows a process that has just been started; gives its first follower.
    pub fn new(
        running: Running,
        config: ProcessConfig,
        tag: Option<String>,
        streams: Streams,
        timeout: Option<Duration>,
    ) -> (Arc<Self>, Followers) {
        let (ended, end) = watch::channel(None);
        let (output, terminal) = match streams.output {
            Output::Pipes(stdout, stderr) => (
                vec![(Source::Stdout, stdout), (Source::Stderr, stderr)],
                None,
            ),
            Output::Terminal(output, terminal) => {
                (vec![(Source::Terminal, output)], Some(terminal))
            }
        };
        let followed = Arc::new(Self {
            pid: u32::try_from(running.pid).unwrap_or(0),
            tag,
            config,
            input: Mutex::new(streams.input),
            terminal,
            control: running.control.clone(),
            followers: StdMutex::default(),
            end,
            timed_out: AtomicBool::new(false),
        });
        let first = followed.follow();
        tokio::spawn(Arc::clone(&followed).until_end(running, output, timeout, ended));
        (followed, first)
    }

    /// Whether its time limit has ended it.
    pub fn timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }

    pub fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// What happens from now on; `start` comes first, `end` last.
    pub fn follow(&self) -> Followers {
        let (events, received) = mpsc::channel(EVENTS_WAITING);
        let start = StartEvent {
            pid: self.pid,
            ..Default::default()
        };
        // The channel is new and has room for two.
        let _ = events.try_send(event(start));
        let mut followers = self
            .followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(end) = self.end.borrow().clone() {
            let _ = events.try_send(event(end));
        } else {
            followers.push(events);
        }
        received
    }

    pub async fn write(&self, data: &[u8]) -> Result<(), ConnectError> {
        let written = match &mut *self.input.lock().await {
            Input::Pipe(pipe) | Input::Terminal(pipe) => pipe.write_all(data).await,
            Input::None => {
                return Err(ConnectError::failed_precondition(
                    "the process has no open standard input",
                ));
            }
        };
        written
            .map_err(|_| ConnectError::failed_precondition("the process does not read its input"))
    }

    pub async fn close_input(&self) -> Result<(), ConnectError> {
        let mut input = self.input.lock().await;
        if matches!(*input, Input::Terminal(_)) {
            return Err(ConnectError::failed_precondition(
                "a terminal has no end of input; send the byte 0x04",
            ));
        }
        *input = Input::None;
        Ok(())
    }

    pub async fn signal(&self, signal: Signal) {
        if signal == Signal::KILL {
            self.control.kill().await;
        } else {
            self.control.signal(signal).await;
        }
    }

    pub fn resize(&self, cols: u32, rows: u32) -> Result<(), ConnectError> {
        let terminal = self
            .terminal
            .as_ref()
            .ok_or_else(|| ConnectError::failed_precondition("the process has no terminal"))?;
        let size = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
        terminal
            .resize(size(cols), size(rows))
            .map_err(|cause| error(ErrorCode::InvalidRequest, cause.to_string()))
    }

    async fn until_end(
        self: Arc<Self>,
        mut running: Running,
        output: Vec<(Source, pipe::Receiver)>,
        timeout: Option<Duration>,
        ended: watch::Sender<Option<EndEvent>>,
    ) {
        let (program_ended, has_ended) = watch::channel(false);
        let reading: Vec<_> = output
            .into_iter()
            .map(|(source, pipe)| {
                let mut publisher = Publisher(Arc::clone(&self), source);
                let ended = has_ended.clone();
                tokio::spawn(async move { read_all(pipe, ended, &mut publisher).await })
            })
            .collect();
        let time_is_up = async {
            match timeout {
                Some(timeout) => life::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let exit = tokio::select! {
            biased;
            exit = running.ended() => Some(exit),
            () = time_is_up => None,
        };
        let exit = match exit {
            Some(exit) => exit,
            None => {
                self.timed_out.store(true, Ordering::Relaxed);
                running.end(Duration::ZERO).await
            }
        };
        let _ = program_ended.send(true);
        for stream in reading {
            let _ = stream.await;
        }
        let end = end_event(exit);
        let followers = {
            let mut followers = self
                .followers
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            // Under the lock: a new follower sees the end or is told of it.
            let _ = ended.send(Some(end.clone()));
            std::mem::take(&mut *followers)
        };
        for follower in followers {
            let _ = follower.send(event(end.clone())).await;
        }
    }

    /// Waits for every follower: who reads slowly holds the process, not memory.
    async fn publish(&self, source: Source, data: &[u8]) {
        let followers: Vec<_> = {
            let mut followers = self
                .followers
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            followers.retain(|follower| !follower.is_closed());
            followers.clone()
        };
        for follower in followers {
            let output = match source {
                Source::Stdout => data_event::Output::Stdout(data.to_vec()),
                Source::Stderr => data_event::Output::Stderr(data.to_vec()),
                Source::Terminal => data_event::Output::Pty(data.to_vec()),
            };
            let data = DataEvent {
                output: Some(output),
                ..Default::default()
            };
            let _ = follower.send(event(data)).await;
        }
    }
}

struct Publisher(Arc<Followed>, Source);

impl Sink for Publisher {
    async fn take(&mut self, data: &[u8]) {
        self.0.publish(self.1, data).await;
    }
}

fn event(event: impl Into<Event>) -> ProcessEvent {
    ProcessEvent {
        event: Some(event.into()),
        ..Default::default()
    }
}

/// As the public contract words it.
fn end_event(exit: Exit) -> EndEvent {
    let status = match exit.signal {
        0 => format!("exit status {}", exit.code),
        signal => format!("signal: {}", signal_in_words(signal)),
    };
    let failed = exit.signal != 0 || exit.code != 0;
    EndEvent {
        exit_code: if exit.signal == 0 { exit.code } else { -1 },
        exited: exit.signal == 0,
        error: failed.then(|| status.clone()),
        status,
        ..Default::default()
    }
}

/// As Go's `syscall.Signal` calls them.
fn signal_in_words(signal: i32) -> String {
    const WORDS: [&str; 15] = [
        "hangup",
        "interrupt",
        "quit",
        "illegal instruction",
        "trace/breakpoint trap",
        "aborted",
        "bus error",
        "floating point exception",
        "killed",
        "user defined signal 1",
        "segmentation fault",
        "user defined signal 2",
        "broken pipe",
        "alarm clock",
        "terminated",
    ];
    let index = usize::try_from(signal - 1).unwrap_or(usize::MAX);
    match WORDS.get(index) {
        Some(words) => (*words).to_owned(),
        None => format!("signal {signal}"),
    }
}

/// What a program that was started without a terminal is given.
pub(super) struct ProgramEnds {
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}
