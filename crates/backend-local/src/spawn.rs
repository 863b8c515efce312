//! Starting bubblewrap: the one place with unsafe code.

#![expect(unsafe_code, reason = "a child must join its cgroups and leave our process group between fork and exec")]

use std::{
    fs::File,
    io::{self, Write as _},
    os::{
        fd::OwnedFd,
        unix::process::CommandExt as _,
    },
    process::{Child, Command},
    sync::mpsc,
    thread,
};

use command_fds::{CommandFdExt as _, FdMapping};
use tokio::sync::oneshot;

/// A program to start, and what it gets of ours.
pub(crate) struct Launch {
    pub command: Command,
    /// `cgroup.procs` of each group to join, opened by us.
    pub cgroups: Vec<File>,
    /// Descriptors to pass, and their numbers in the child.
    pub fds: Vec<(OwnedFd, i32)>,
    /// The user to become before anything runs.
    pub uid: Option<u32>,
}

const CLOSE_ON_EXEC: libc::c_int = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;

type Job = (Launch, oneshot::Sender<io::Result<Child>>);

/// Starts programs from one thread that lives as long as the service, for
/// --die-with-parent follows the *thread* that started bubblewrap (prctl(2),
/// PR_SET_PDEATHSIG).
pub(crate) struct Launcher(mpsc::Sender<Job>);

impl Launcher {
    pub fn start() -> io::Result<Self> {
        let (jobs, received) = mpsc::channel::<Job>();
        thread::Builder::new()
            .name("launcher".into())
            .spawn(move || {
                for (launch, started) in received {
                    let _ = started.send(spawn(launch));
                }
            })?;
        Ok(Self(jobs))
    }

    pub async fn launch(&self, launch: Launch) -> io::Result<Child> {
        let (started, child) = oneshot::channel();
        self.0
            .send((launch, started))
            .map_err(|_| io::Error::other("the launcher is gone"))?;
        child
            .await
            .map_err(|_| io::Error::other("the launcher is gone"))?
    }
}

fn spawn(launch: Launch) -> io::Result<Child> {
    let Launch {
        mut command,
        cgroups,
        fds,
        uid,
    } = launch;
    if let Some(uid) = uid {
        // As root this clears the supplementary groups too.
        command.uid(uid).gid(uid);
    }
    let join = move || {
        // Nothing outside may share a process group with a sandbox: kill(0) crosses
        // PID namespaces.
        rustix::process::setsid()?;
        // Whatever the service itself was started with ends here.
        // SAFETY: a system call on numbers alone; std's own descriptors are closed on
        // exec anyway, and those to pass are opened again after this.
        if unsafe { libc::close_range(3, u32::MAX, CLOSE_ON_EXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        for group in &cgroups {
            (&*group).write_all(b"0")?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls follow: setsid(2),
    // close_range(2), and write(2) on descriptors that the parent opened; nothing allocates.
    unsafe { command.pre_exec(join) };
    let mappings = fds
        .into_iter()
        .map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd })
        .collect();
    command
        .fd_mappings(mappings)
        .map_err(io::Error::other)?
        .spawn()
}
