//! One warm interpreter, and the children that it has forked ahead.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    fs,
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{fs::MetadataExt as _, net::UnixStream as StdUnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Notify,
};

use super::{
    USUAL,
    choice::{Candidate, Imports},
    done::Runs,
};
use crate::{
    UserLimits,
    disk::Disk,
    display::modules,
    life::timeout,
    run::{Extra, Running, Start, Starter, null_output, tell},
    state::Guest,
    supervise::control::Exit,
};

/// For all that is to be imported.
const START_LIMIT: Duration = Duration::from_secs(60);
/// For a fork, after which the run is started as any program.
const FORK_LIMIT: Duration = Duration::from_secs(2);
/// For a child that was told what to run: it may have been stopped by somebody.
const BEGIN_LIMIT: Duration = Duration::from_secs(1);
/// After a fork that failed.
const AFTER_FAILURE: Duration = Duration::from_millis(20);
/// Children that wait at a time: one, or as many as runs that go on.
const MAX_SPARES: usize = 4;

pub(crate) struct Zygote {
    pid: i32,
    imports: Imports,
    env: BTreeMap<String, String>,
    /// Modules that it has, and that a file beside a script would stand before.
    names: HashSet<String>,
    watched: Vec<Watched>,
    control: Option<OwnedWriteHalf>,
    /// Told to nobody, its supervisor would end all that its runs have left behind.
    process: Option<Running>,
    alive: AtomicBool,
    /// Another one has its place, and nothing is forked of it any more.
    let_go: AtomicBool,
    disk: Arc<Disk>,
    spares: Mutex<VecDeque<Spare>>,
    /// Forks that were asked for.
    coming: AtomicUsize,
    /// Runs that go on.
    running: AtomicUsize,
    /// Its share of the machine's memory, when it was last asked.
    memory_bytes: AtomicU64,
    /// A fork has come, or will not.
    changed: Notify,
}

/// A path and when it changed last, if it is there.
#[derive(Debug, Deserialize, PartialEq, Eq)]
struct Watched(PathBuf, Option<i64>);

/// A child that waits for a run.
struct Spare {
    socket: UnixStream,
    pid: i32,
}

/// What the zygote says.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Report {
    Ready {
        pid: i32,
        env: BTreeMap<String, String>,
        names: HashSet<String>,
        watched: Vec<Watched>,
    },
    Memory {
        memory_bytes: u64,
    },
    Ended {
        pid: i32,
        #[serde(flatten)]
        exit: Exit,
    },
}

/// What a zygote is started with.
#[derive(Serialize)]
struct Options<'a> {
    modules: &'a [String],
    /// It is not one zygote but what zygotes of many sandboxes come from.
    template: bool,
}

/// What a child is to run.
pub(super) struct Run<'a> {
    pub candidate: &'a Candidate,
    pub program: &'a Start,
    pub extra: &'a Extra,
    pub display: &'a str,
    pub limits: UserLimits,
}

/// The same, as the child reads it after the program's three streams.
#[derive(Serialize)]
struct Begin<'a> {
    command: &'a [String],
    argv: &'a [String],
    env: &'a BTreeMap<String, String>,
    cwd: &'a Path,
    /// Of the script, links followed.
    folder: &'a Path,
    limits: UserLimits,
    display: &'a str,
    /// It runs the program of contexts that it has read already.
    context: bool,
    /// By which all that the run starts is known.
    mark: u64,
    /// Where it says that it is done.
    done: &'a str,
}

impl Zygote {
    /// Of the service's template, or by itself.
    pub async fn start(
        guest: &Arc<Guest>,
        starter: &Starter,
        runs: &Runs,
        command: &[String],
        (imports, modules): (Imports, &[String]),
    ) -> io::Result<Arc<Self>> {
        if guest.templates.is_promised()
            && command == USUAL
            && let Ok(socket) = guest.templates.ask(imports).await
            && let Ok(zygote) = Self::greet(guest, runs, imports, socket, None).await
            && zygote.is_current()
        {
            return Ok(zygote);
        }
        let (process, socket) = spawn(guest, starter, command, modules).await?;
        Self::greet(guest, runs, imports, socket, Some(process)).await
    }

    /// Waits until it is ready.
    async fn greet(
        guest: &Arc<Guest>,
        runs: &Runs,
        imports: Imports,
        socket: StdUnixStream,
        process: Option<Running>,
    ) -> io::Result<Arc<Self>> {
        socket.set_nonblocking(true)?;
        let (reports, control) = UnixStream::from_std(socket)?.into_split();
        let mut reports = BufReader::new(reports);
        let spawned = process.as_ref().map(|it| it.pid);
        if let Some(pid) = spawned {
            // Not to be limited as a program is, for what it forks is to become one.
            guest.disk.idle().zygotes.insert(pid);
        }
        let ready = timeout(START_LIMIT, next(&mut reports)).await;
        let Ok(Some(Report::Ready {
            pid,
            env,
            names,
            watched,
        })) = ready
        else {
            if let Some(process) = process {
                process.control.kill().await;
                guest.disk.idle().zygotes.remove(&process.pid);
            }
            return Err(io::Error::other("the interpreter does not start"));
        };
        if spawned.is_some_and(|it| it != pid) {
            return Err(io::Error::other("the interpreter is another process"));
        }
        guest.disk.idle().zygotes.insert(pid);
        let zygote = Arc::new(Self {
            pid,
            imports,
            env,
            names,
            watched,
            control: Some(control),
            process,
            alive: AtomicBool::new(true),
            let_go: AtomicBool::new(false),
            disk: Arc::clone(&guest.disk),
            spares: Mutex::default(),
            coming: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            memory_bytes: AtomicU64::new(0),
            changed: Notify::new(),
        });
        // Ends with the zygote, which ends when its control is closed.
        tokio::spawn(follow(reports, Arc::downgrade(&zygote), pid, runs.clone()));
        zygote.refill();
        Ok(zygote)
    }

    pub fn imports(&self) -> Imports {
        self.imports
    }

    pub fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    pub fn has(&self, module: &str) -> bool {
        self.names.contains(module)
    }

    fn control(&self) -> io::Result<&UnixStream> {
        let control = self.control.as_ref().map(AsRef::as_ref);
        control.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// It lives, and another start would find what it found.
    pub fn is_current(&self) -> bool {
        self.is_alive() && self.watched.iter().all(Watched::is_same)
    }

    /// What it has forked may live for long, and needs it to tell of its end alone.
    pub fn let_go(&self) {
        self.let_go.store(true, Ordering::Relaxed);
        // They end when their sockets are closed.
        self.spares().clear();
        self.changed.notify_waiters();
    }

    fn may_fork(&self) -> bool {
        self.is_alive() && !self.let_go.load(Ordering::Relaxed)
    }

    fn spares(&self) -> MutexGuard<'_, VecDeque<Spare>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a run to a child; `None` when none can be had, and nothing was run then.
    /// `expect` is told who it will be, before that can end.
    pub async fn begin(
        self: &Arc<Self>,
        run: &Run<'_>,
        mark: u64,
        done: &str,
        expect: impl FnOnce(i32),
    ) -> Option<i32> {
        let Ok(spare) = timeout(FORK_LIMIT, self.spare()).await else {
            self.retire();
            return None;
        };
        let Spare { mut socket, pid } = spare?;
        let folder = Path::new(run.candidate.argv.first()?).parent()?;
        let text = serde_json::to_vec(&Begin {
            command: &run.candidate.command,
            argv: &run.candidate.argv,
            env: &run.program.env,
            cwd: &run.program.cwd,
            folder: &fs::canonicalize(folder).ok()?,
            limits: run.limits,
            display: run.display,
            context: run.candidate.is_context,
            mark,
            done,
        });
        let program = run.program;
        let streams = [&program.stdin, &program.stdout, &program.stderr].into_iter();
        let streams: Vec<_> = streams.chain(&run.extra.fds).map(|it| it.as_fd()).collect();
        // From now on it is a program, and limited as one.
        self.disk.idle().runs.insert(pid);
        self.disk.stir();
        expect(pid);
        let begun = timeout(BEGIN_LIMIT, async {
            tell(&mut socket, &text.ok()?, &streams).await.ok()?;
            let mut word = [0];
            socket.read_exact(&mut word).await.ok()
        });
        let begun = begun.await;
        if matches!(begun, Ok(Some(_))) {
            self.refill();
            return Some(pid);
        }
        // Whatever holds it up, it must not begin later; and the next would be held up too.
        super::forked::kill(pid);
        self.retire();
        None
    }

    /// It does not answer, stopped by somebody: another takes its place. What goes on in
    /// its children goes on.
    fn retire(&self) {
        self.alive.store(false, Ordering::Relaxed);
        for spare in self.spares().drain(..) {
            super::forked::kill(spare.pid);
        }
        super::forked::kill(self.pid);
    }

    /// Of runs, as many more may come as there are.
    pub fn run_begins(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    pub fn run_ended(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// A child that had become a program is there no more.
    pub fn child_ended(&self, pid: i32) {
        self.disk.idle().runs.remove(&pid);
    }

    /// One that waits, or the next that is forked.
    async fn spare(self: &Arc<Self>) -> Option<Spare> {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(spare) = self.spares().pop_front() {
                return Some(spare);
            }
            if !self.may_fork() {
                return None;
            }
            if self.coming.load(Ordering::Relaxed) == 0 && !self.fork() {
                return None;
            }
            changed.await;
        }
    }

    /// Forks ahead what the next runs will need.
    fn refill(self: &Arc<Self>) {
        if !self.may_fork() {
            return;
        }
        let wanted = self.running.load(Ordering::Relaxed).clamp(1, MAX_SPARES);
        let there = self.spares().len() + self.coming.load(Ordering::Relaxed);
        for _ in there..wanted {
            if !self.fork() {
                return;
            }
        }
    }

    /// Memory of itself and of what it has forked ahead, shared pages in parts.
    pub async fn memory_bytes(&self) -> u64 {
        self.memory_bytes.store(0, Ordering::Relaxed);
        let answer = async {
            loop {
                let mut changed = std::pin::pin!(self.changed.notified());
                changed.as_mut().enable();
                let bytes = self.memory_bytes.load(Ordering::Relaxed);
                if bytes > 0 || !self.alive.load(Ordering::Relaxed) {
                    return bytes;
                }
                changed.await;
            }
        };
        // Its own is for nobody else to look at.
        let asked = self
            .control()
            .and_then(|it| Ok(rustix::io::write(it, b"m")?));
        let own = match asked {
            Ok(_) => timeout(FORK_LIMIT, answer).await.unwrap_or(0),
            Err(_) => 0,
        };
        let forked: Vec<i32> = self.spares().iter().map(|spare| spare.pid).collect();
        own + forked
            .into_iter()
            .filter_map(proportional_bytes)
            .sum::<u64>()
    }

    /// Asks for a child, which comes later; false if nobody can be asked.
    fn fork(self: &Arc<Self>) -> bool {
        let Ok(socket) = self.order() else {
            return false;
        };
        self.coming.fetch_add(1, Ordering::Relaxed);
        let zygote = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut socket = BufReader::with_capacity(32, socket);
            let mut line = String::new();
            let read = timeout(FORK_LIMIT, socket.read_line(&mut line)).await;
            let Some(zygote) = zygote.upgrade() else {
                return;
            };
            zygote.coming.fetch_sub(1, Ordering::Relaxed);
            if let (Ok(Ok(_)), Ok(pid)) = (read, line.trim_end().parse()) {
                let socket = socket.into_inner();
                if zygote.may_fork() {
                    zygote.spares().push_back(Spare { socket, pid });
                }
            } else {
                // No process is left, maybe: not to be asked again at once.
                tokio::time::sleep(AFTER_FAILURE).await;
            }
            zygote.changed.notify_waiters();
        });
        true
    }

    fn order(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let theirs = OwnedFd::from(theirs);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = [theirs.as_fd()];
        if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(io::Error::other("no room for the socket"));
        }
        let word = [IoSlice::new(b"f")];
        sendmsg(self.control()?, &word, &mut ancillary, SendFlags::NOSIGNAL)?;
        UnixStream::from_std(ours)
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        self.disk.idle().zygotes.remove(&self.pid);
        // It ends itself when this is closed, and its supervisor after it.
        self.control.take();
        if let Some(mut process) = self.process.take() {
            tokio::spawn(async move {
                let _ = timeout(FORK_LIMIT, process.ended()).await;
            });
        }
    }
}

/// Starts an interpreter of the sandbox's own.
async fn spawn(
    guest: &Arc<Guest>,
    starter: &Starter,
    command: &[String],
    modules: &[String],
) -> io::Result<(Running, StdUnixStream)> {
    let folder = {
        let guest = Arc::clone(guest);
        tokio::task::spawn_blocking(move || guest.python_modules.path())
            .await
            .map_err(io::Error::other)??
    };
    let options = Options {
        modules,
        template: false,
    };
    let mut argv = command.to_vec();
    argv.push(folder.join(modules::ZYGOTE).to_string_lossy().into_owned());
    argv.push(serde_json::to_string(&options)?);
    let (ours, theirs) = StdUnixStream::pair()?;
    let started = starter.start(Start {
        argv,
        env: guest.env(),
        cwd: "/".into(),
        stdin: theirs.into(),
        stdout: null_output()?,
        stderr: null_output()?,
        terminal: false,
    });
    Ok((started.await.map_err(io::Error::other)?, ours))
}

/// Hears what the zygote says until its end.
async fn follow(mut reports: BufReader<OwnedReadHalf>, zygote: Weak<Zygote>, pid: i32, runs: Runs) {
    loop {
        match next(&mut reports).await {
            Some(Report::Ended { pid, exit }) => runs.ended(pid, exit),
            Some(Report::Memory { memory_bytes }) => {
                if let Some(zygote) = zygote.upgrade() {
                    zygote.memory_bytes.store(memory_bytes, Ordering::Relaxed);
                    zygote.changed.notify_waiters();
                }
            }
            Some(Report::Ready { .. }) | None => break,
        }
    }
    if let Some(zygote) = zygote.upgrade() {
        zygote.alive.store(false, Ordering::Relaxed);
        // Its number may be another's soon, and its children may live on for long.
        zygote.disk.idle().zygotes.remove(&pid);
        zygote.spares().clear();
        zygote.changed.notify_waiters();
    }
    runs.parent_is_gone(pid);
}

impl Watched {
    fn is_same(&self) -> bool {
        let found = fs::metadata(&self.0).ok();
        let changed = found.map(|it| {
            let nanos = i128::from(it.mtime()) * 1_000_000_000 + i128::from(it.mtime_nsec());
            i64::try_from(nanos).unwrap_or(0)
        });
        changed == self.1
    }
}

fn proportional_bytes(pid: i32) -> Option<u64> {
    let memory = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = memory.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

async fn next(reports: &mut BufReader<OwnedReadHalf>) -> Option<Report> {
    let mut line = String::new();
    match reports.read_line(&mut line).await {
        Ok(read) if read > 0 => serde_json::from_str(&line).ok(),
        _ => None,
    }
}
