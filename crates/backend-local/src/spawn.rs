//! Starting bubblewrap.
//!
//! All sandboxes are started by one thread that lives as long as any of them: the
//! kernel sends a parent-death signal when the *thread* that forked ends
//! (PR_SET_PDEATHSIG(2const)), and `--die-with-parent` is made of that signal.
#![expect(
    unsafe_code,
    reason = "what a sandbox starts with can only be set between fork and exec"
)]

use std::{
    fs::File,
    io::{self, Seek as _, Write as _},
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
};

use command_fds::{CommandFdExt as _, FdMapping};
use rustix::{
    fs::{MemfdFlags, Mode, OFlags, memfd_create, open},
    process::{Gid, Resource, Rlimit, Uid, getrlimit, setrlimit, setsid},
    thread::{set_thread_gid, set_thread_groups, set_thread_uid},
};
use tokio::{process::Child, runtime::Handle, sync::oneshot};

/// When memory runs out on the whole machine, sandboxes go before its services.
const OOM_SCORE: &[u8] = b"500";
const OPEN_FILES: u64 = 1024;
const MOST_OPEN_FILES: u64 = 65_536;
/// Of the kernel's, on every architecture that we run on (signal(7)).
const LAST_SIGNAL: i32 = 64;

/// What a sandbox starts with.
pub(crate) struct Launch {
    pub command: Vec<String>,
    /// The guest's end of its connection.
    pub stdin: Stdio,
    /// Where the guest asks for warm interpreters, or nothing.
    pub stdout: Stdio,
    /// The descriptor, among `data`, with bubblewrap's arguments.
    pub arguments_fd: i32,
    /// Contents of descriptors that bubblewrap reads, by number.
    pub data: Vec<(i32, Vec<u8>)>,
    /// Files to write `0` to, to join the sandbox's cgroups.
    pub join: Vec<File>,
    /// The host user to become, where the service is root.
    pub user: Option<u32>,
}

impl Launch {
    pub fn into_command(self, bwrap: &Path) -> io::Result<Command> {
        let mut command = Command::new(bwrap);
        command
            .args(["--args", &self.arguments_fd.to_string(), "--"])
            .args(self.command)
            // The service's environment may hold its secrets.
            .env_clear()
            .current_dir("/")
            .stdin(self.stdin)
            .stdout(self.stdout)
            .stderr(Stdio::piped());
        let (join, user) = (self.join, self.user);
        // SAFETY: the closure runs between fork and exec, in a process with one
        // thread, where only async-signal-safe calls may be made. It makes raw
        // system calls, through rustix's linux_raw backend, on values that were
        // made before the fork; it takes no lock, allocates nothing and does not
        // panic: `join` is only read, and an error is a plain number.
        unsafe {
            command.pre_exec(move || confine(&join, user).map_err(io::Error::from));
        }
        // After `confine`, for the numbers given here may be those of `join`.
        let mut mappings = Vec::new();
        let highest = self.data.iter().map(|(fd, _)| *fd).max().unwrap_or(2);
        for (child_fd, content) in self.data {
            mappings.push(FdMapping {
                parent_fd: memory_file(&content)?,
                child_fd,
            });
        }
        command.fd_mappings(mappings).map_err(io::Error::other)?;
        // SAFETY: as above; one system call on plain numbers.
        unsafe {
            command.pre_exec(move || close_on_exec_above(highest));
        }
        Ok(command)
    }
}

/// Runs in the child; as root for as long as the cgroups and the score need it.
fn confine(join: &[File], user: Option<u32>) -> rustix::io::Result<()> {
    for group in join {
        rustix::io::write(group, b"0\n")?;
    }
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let score = open(c"/proc/self/oom_score_adj", flags, Mode::empty())?;
    rustix::io::write(&score, OOM_SCORE)?;
    // 1 and not 0: with 0 a crash still starts the host's handler where
    // core_pattern is a pipe (core(5)), on input that the sandbox chose.
    limit(Resource::Core, 1, 1)?;
    limit(Resource::Nofile, OPEN_FILES, MOST_OPEN_FILES)?;
    // `nohup`, or a shell's `&`, may have left some ignored, and exec keeps that.
    for signal in 1..=LAST_SIGNAL {
        // SAFETY: async-signal-safe (signal-safety(7)); it replaces no handler that
        // is still needed, for exec comes next. Of those that cannot be set it does
        // nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // Signals to a process group cross PID namespaces, so ours must not be shared.
    setsid()?;
    if let Some(user) = user {
        set_thread_groups(&[])?;
        set_thread_gid(Gid::from_raw(user))?;
        // Last, for it gives up the right to the others; before bubblewrap, for
        // what real root starts can write to /proc/sys.
        set_thread_uid(Uid::from_raw(user))?;
    }
    Ok(())
}

/// Runs in the child, last. What this service itself was started with may lack the
/// flag that closes it, and bubblewrap hands everything on.
fn close_on_exec_above(highest: libc::c_int) -> io::Result<()> {
    // SAFETY: it only sets a flag of this process's own descriptors.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            highest + 1,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets a limit, or less where the service itself has less.
fn limit(resource: Resource, current: u64, maximum: u64) -> rustix::io::Result<()> {
    let own = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let new = Rlimit {
        current: Some(current.min(own)),
        maximum: Some(maximum.min(own)),
    };
    setrlimit(resource, new)
}

/// A file in memory, to be read from its beginning, that no program inherits.
fn memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"sandbox", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}

struct Request {
    command: Command,
    runtime: Handle,
    started: oneshot::Sender<io::Result<Child>>,
}

/// The thread that starts sandboxes; it ends with its last owner.
pub(crate) struct Spawner(mpsc::Sender<Request>);

impl Spawner {
    pub fn start() -> io::Result<Self> {
        let (sender, requests) = mpsc::channel();
        thread::Builder::new()
            .name("sandbox-spawner".into())
            .spawn(move || requests.into_iter().for_each(spawn))?;
        Ok(Self(sender))
    }

    pub async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (started, child) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts sandboxes is gone");
        self.0
            .send(Request {
                command,
                runtime: Handle::current(),
                started,
            })
            .map_err(|_| gone())?;
        child.await.map_err(|_| gone())?
    }
}

fn spawn(request: Request) {
    // For what tokio needs to wait for the child's end.
    let _runtime = request.runtime.enter();
    let mut command = tokio::process::Command::from(request.command);
    // If nobody waits for it any more, it must not run on.
    let _ = request.started.send(command.kill_on_drop(true).spawn());
}
