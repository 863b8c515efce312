//! Starting programs under a supervisor, and ending them.

mod build;
mod capture;
mod pipes;
mod script;
mod spill;
mod supervisors;
mod to_end;

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use connectrpc::ConnectError;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use sandbox_core::ErrorCode;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::{Mutex, oneshot},
};

pub(crate) use build::Build;
pub(crate) use capture::{Earlier, Sink, Wanted, discard, follow_on, read_all};
pub(crate) use guest_parts::output::EventSender;
pub(crate) use pipes::{input_pipe, null_input, null_output, output_pipe};
pub(crate) use script::ScriptFile;
pub(crate) use spill::Spilling;
use supervisors::Supervisors;
pub(crate) use supervisors::tell;
pub(crate) use to_end::{EVENTS_WAITING, RunToEnd, run_to_end, started};

use crate::{
    UserLimits,
    disk::Disk,
    error::error,
    life,
    reaper::Reaper,
    supervise::{
        control::{Begin, Exit, Order, Report},
        tree,
    },
    warm::Forked,
};

/// How long a supervisor may take to say that its program has started.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How long ending a run may take after its grace before everything is killed.
const END_LIMIT: Duration = Duration::from_secs(3);

/// What is said of a program whose end nobody saw.
pub(crate) const KILLED: Exit = Exit {
    code: -1,
    signal: 9,
    cpu_us: 0,
    max_rss_bytes: 0,
};

/// A program to start.
pub(crate) struct Start {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// The three are a terminal that the program shall control.
    pub terminal: bool,
}

/// What the interpreter of a context is given besides.
#[derive(Default)]
pub(crate) struct Extra {
    /// Its descriptors from the third on.
    pub fds: Vec<OwnedFd>,
    /// Private memory of each of its processes, where that is to be less than usual.
    pub data_bytes: Option<u64>,
}

/// Starts programs; a clone is the same starter.
#[derive(Clone)]
pub(crate) struct Starter {
    supervisors: Supervisors,
    limits: UserLimits,
    disk: Arc<Disk>,
}

/// A program that was started.
pub(crate) struct Running {
    pub pid: i32,
    pub control: Control,
    pub exit: oneshot::Receiver<Exit>,
}

/// Orders to a program; a clone gives them to the same one.
#[derive(Clone)]
pub(crate) enum Control {
    /// By its supervisor.
    Supervised(Arc<Mutex<OwnedWriteHalf>>),
    Forked(Forked),
}

impl Starter {
    pub fn new(reaper: Reaper, limits: UserLimits, disk: Arc<Disk>) -> Self {
        Self {
            supervisors: Supervisors::new(reaper, Arc::clone(&disk)),
            limits,
            disk,
        }
    }

    /// Of a program that starts now.
    pub fn limits(&self, extra: &Extra) -> UserLimits {
        UserLimits {
            file_bytes: match self.disk.is_full() {
                true => Some(0),
                false => self.limits.file_bytes,
            },
            data_bytes: extra
                .data_bytes
                .into_iter()
                .chain(self.limits.data_bytes)
                .min(),
            ..self.limits
        }
    }

    pub async fn start(&self, start: Start) -> Result<Running, ConnectError> {
        self.start_with(start, Extra::default()).await
    }

    pub async fn start_with(&self, start: Start, extra: Extra) -> Result<Running, ConnectError> {
        life::awake().await;
        if !start.cwd.is_dir() {
            return Err(error(
                ErrorCode::InvalidPath,
                "the working directory does not exist",
            ));
        }
        let program = start.argv.first().cloned().unwrap_or_default();
        let begin = Begin {
            argv: start.argv,
            env: start.env,
            cwd: start.cwd,
            terminal: start.terminal,
            limits: self.limits(&extra),
        };
        let mut streams = vec![start.stdin, start.stdout, start.stderr];
        streams.extend(extra.fds);
        let fds: Vec<_> = streams.iter().map(|stream| stream.as_fd()).collect();
        let begun = self.supervisors.begin(&begin, &fds).await;
        // The pipes end with the program.
        drop(streams);
        let control = begun.map_err(|e| spawn_error(&e, &program))?;
        self.disk.stir();
        let (reports, orders) = control.into_split();
        let mut reports = BufReader::new(reports);
        let first = life::timeout(START_LIMIT, next_report(&mut reports)).await;
        match first {
            Ok(Some(Report::Started { pid })) => {
                let (ended, exit) = oneshot::channel();
                let supervisors = self.supervisors.clone();
                tokio::spawn(async move {
                    follow_reports(reports, pid, ended).await;
                    supervisors.refill();
                });
                Ok(Running {
                    pid,
                    control: Control::Supervised(Arc::new(Mutex::new(orders))),
                    exit,
                })
            }
            Ok(Some(Report::Failed { errno })) => {
                Err(spawn_error(&io::Error::from_raw_os_error(errno), &program))
            }
            // A program may be quick to kill all it can, its supervisor among them.
            Ok(None) => {
                let (ended, exit) = oneshot::channel();
                let _ = ended.send(KILLED);
                Ok(Running {
                    pid: 0,
                    control: Control::Supervised(Arc::new(Mutex::new(orders))),
                    exit,
                })
            }
            _ => Err(error(
                ErrorCode::SandboxExhausted,
                "the sandbox has no memory or process left to start a program",
            )),
        }
    }
}

async fn next_report(reports: &mut BufReader<OwnedReadHalf>) -> Option<Report> {
    let mut line = String::new();
    match reports.read_line(&mut line).await {
        Ok(read) if read > 0 => serde_json::from_str(&line).ok(),
        _ => None,
    }
}

async fn follow_reports(
    mut reports: BufReader<OwnedReadHalf>,
    program: i32,
    ended: oneshot::Sender<Exit>,
) {
    let exit = match next_report(&mut reports).await {
        Some(Report::Ended(exit)) => exit,
        _ => {
            // Somebody killed the supervisor: what it watched must not stay.
            tree::signal_descendants(program, Signal::KILL);
            if let Some(program) = Pid::from_raw(program) {
                let _ = kill_process(program, Signal::KILL);
            }
            KILLED
        }
    };
    let _ = ended.send(exit);
}

fn spawn_error(cause: &io::Error, program: &str) -> ConnectError {
    match cause.kind() {
        io::ErrorKind::NotFound => error(
            ErrorCode::NotInstalled,
            format!("`{program}` is not installed in the sandbox"),
        ),
        io::ErrorKind::PermissionDenied => error(
            ErrorCode::PermissionDenied,
            format!("`{program}` may not be executed"),
        ),
        io::ErrorKind::ArgumentListTooLong => error(
            ErrorCode::InvalidRequest,
            "arguments and environment are too long for one program",
        ),
        io::ErrorKind::InvalidInput => error(
            ErrorCode::InvalidRequest,
            "an argument or a variable has a NUL byte",
        ),
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => error(
            ErrorCode::SandboxExhausted,
            "the sandbox has no memory or process left to start a program",
        ),
        _ => error(
            ErrorCode::SandboxExhausted,
            format!("`{program}` could not be started: {cause}"),
        ),
    }
}

async fn order(supervisor: &Mutex<OwnedWriteHalf>, order: Order) {
    if let Ok(mut line) = serde_json::to_vec(&order) {
        line.push(b'\n');
        // A supervisor that is gone has nothing left to end.
        let _ = supervisor.lock().await.write_all(&line).await;
    }
}

impl Control {
    /// Sends a signal to the program alone.
    pub async fn signal(&self, signal: Signal) {
        let number = signal.as_raw();
        match self {
            Self::Supervised(supervisor) => order(supervisor, Order::Signal { number }).await,
            Self::Forked(run) => run.signal(signal),
        }
    }

    /// SIGINT to the program and what it runs in the foreground.
    pub async fn interrupt(&self) {
        match self {
            Self::Supervised(supervisor) => order(supervisor, Order::Interrupt).await,
            Self::Forked(run) => run.interrupt(),
        }
    }

    /// SIGKILL to all that the program started.
    pub async fn kill(&self) {
        match self {
            Self::Supervised(supervisor) => order(supervisor, Order::Kill).await,
            Self::Forked(run) => run.kill().await,
        }
    }

    /// SIGTERM to all that the program started, SIGKILL after the grace.
    pub async fn terminate(&self, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        match self {
            Self::Supervised(supervisor) => order(supervisor, Order::Terminate { grace_ms }).await,
            Self::Forked(run) => run.terminate(grace).await,
        }
    }
}

impl Running {
    /// Waits for the program's end.
    pub async fn ended(&mut self) -> Exit {
        (&mut self.exit).await.unwrap_or(KILLED)
    }

    /// Ends the run and all that it started, whatever they do against it.
    pub async fn end(&mut self, grace: Duration) -> Exit {
        if grace.is_zero() {
            self.control.kill().await;
        } else {
            self.control.terminate(grace).await;
        }
        if let Ok(exit) = life::timeout(grace + END_LIMIT, self.ended()).await {
            return exit;
        }
        if rustix::process::getpid() == Pid::INIT {
            // A supervisor that was stopped, or a fork bomb that outruns it:
            // every process of the sandbox at once, but for this one.
            let _ = kill_process_group(Pid::INIT, Signal::KILL);
        } else {
            tree::signal_descendants(rustix::process::getpid().as_raw_pid(), Signal::KILL);
        }
        life::timeout(END_LIMIT, self.ended())
            .await
            .unwrap_or(KILLED)
    }
}
