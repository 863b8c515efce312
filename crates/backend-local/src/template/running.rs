//! A template that runs.

use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use tokio::{
    io::{AsyncReadExt as _, Interest},
    net::UnixStream,
    process::ChildStderr,
    sync::Notify,
    time::timeout,
};

use super::{
    Setup, inspect,
    order::{self, NotJoined, Target},
};
use crate::{
    arguments::{ARGUMENTS_FD, Arguments, ENVIRONMENT},
    error::{Context as _, Failure, Result},
    process::Process,
    rootfs::{Rootfs, WORKSPACE},
    spawn::{Launch, Spawner},
};

/// How long the imports may take.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Kept of what a template that does not start complains about.
const STDERR_BYTES: u64 = 8 * 1024;
/// Its temporary files: what libraries cache when they are imported.
const TMP: u64 = 64 * 1024 * 1024;
const READY: &[u8] = b"ready";

const FOLDER: &str = "/.sandbox";
const PROGRAM: &str = "zygote.py";
/// As `join.py` is imported.
const JOIN: (&str, &str) = ("_sandbox_template.py", include_str!("join.py"));
const FIRST_FILE_FD: i32 = ARGUMENTS_FD + 1;

pub(super) struct Template {
    pub pid: i32,
    /// Ends the template when it is closed.
    control: UnixStream,
    /// It must be ended, for it does not do what it is there for.
    broken: Arc<Notify>,
}

/// The processes of a template.
pub(super) struct Life {
    process: Process,
    broken: Arc<Notify>,
    /// They die with the thread that started them.
    _spawner: Arc<Spawner>,
}

impl Life {
    /// Also where it is broken, and had to be ended.
    pub async fn ended(&mut self) {
        tokio::select! {
            _ = self.process.bwrap_ended() => return,
            _ = self.broken.notified() => {}
        }
        self.end().await;
    }

    pub async fn end(&mut self) {
        if let Err(error) = self.process.end().await {
            tracing::error!(%error, "a template does not end");
        }
    }
}

/// What a template sees: what its sandboxes see, and nothing that can be written to
/// but temporary files of its own. What a zygote has mapped leads there.
pub(super) fn root(rootfs: &Rootfs) -> Arguments {
    let mut all = Arguments::default();
    // Not the PID namespace, from which no sandbox's could be entered.
    all.add(["--unshare-net", "--unshare-ipc", "--die-with-parent"]);
    all.add(["--cap-drop", "ALL"]);
    // To become a sandbox's user, who owns its namespaces.
    all.add(["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]);
    all.add(["--clearenv"]);
    for (name, value) in ENVIRONMENT {
        all.add(["--setenv", name, value]);
    }
    all.add_root(rootfs, TMP);
    all.add(["--dir", WORKSPACE]);
    all
}

impl Template {
    /// Starts a template and looks whether it is as it has to be.
    pub async fn start(setup: &Setup, argument: &str) -> Result<(Arc<Self>, Life)> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .context(|| "failed to make a socket".into())?;
        rustix::io::ioctl_fionbio(&theirs, false).context(|| "failed to make a socket".into())?;
        let command = launch(setup, argument, theirs)
            .into_command(&setup.bwrap)
            .context(|| "failed to prepare a template".into())?;
        let mut child = setup
            .spawner
            .spawn(command)
            .await
            .context(|| "failed to start bubblewrap".into())?;
        let stderr = child.stderr.take();
        let process = Process::new(child).context(|| "failed to watch bubblewrap".into())?;
        let control = UnixStream::from_std(StdUnixStream::from(ours))
            .context(|| "failed to use a socket".into())?;
        match timeout(START_LIMIT, message(&control)).await {
            Ok(Ok(told)) if told == READY => {}
            Ok(told) => {
                let told = told.err().unwrap_or(io::ErrorKind::UnexpectedEof.into());
                let complaint = complaint(stderr).await;
                return Err(Failure::because(
                    format!("the template said: `{complaint}`"),
                    told,
                ));
            }
            Err(_) => return Err(Failure::new("the imports take too long")),
        }
        let (pid, _) = process
            .parent()
            .child()
            .context(|| "failed to find the template".into())?
            .ok_or_else(|| Failure::new("the template has ended"))?;
        let pid = pid.as_raw_nonzero().get();
        inspect::inspect(pid)?;
        let broken = Arc::new(Notify::new());
        let life = Life {
            process,
            broken: Arc::clone(&broken),
            _spawner: Arc::clone(&setup.spawner),
        };
        let template = Self {
            pid,
            control,
            broken,
        };
        Ok((Arc::new(template), life))
    }

    #[cfg(test)]
    pub fn control(&self) -> &UnixStream {
        &self.control
    }

    pub async fn fork(&self, target: &Target, serve: OwnedFd) -> Result<()> {
        match order::send(&self.control, target, serve).await {
            Ok(()) => Ok(()),
            Err(NotJoined::Order(failure)) => Err(failure),
            Err(NotJoined::Template) => {
                self.broken.notify_one();
                Err(Failure::new("the template takes no orders"))
            }
        }
    }
}

fn launch(setup: &Setup, argument: &str, control: OwnedFd) -> Launch {
    let mut arguments = setup.root.clone();
    let python = &setup.python;
    let own = [
        (PROGRAM, python.program.as_bytes()),
        (JOIN.0, JOIN.1.as_bytes()),
        ("allow", &setup.allow),
        ("refuse", &setup.refuse),
    ];
    let others = python.files.iter();
    let others = others.map(|(name, content)| (name.as_str(), content.as_bytes()));
    let mut data = Vec::new();
    for ((name, content), fd) in own.into_iter().chain(others).zip(FIRST_FILE_FD..) {
        let path = format!("{FOLDER}/{name}");
        arguments.add(["--perms", "0444", "--ro-bind-data", &fd.to_string(), &path]);
        data.push((fd, content.to_vec()));
    }
    arguments.add(["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]);
    data.push((ARGUMENTS_FD, arguments.as_bytes().to_vec()));
    let program = format!("{FOLDER}/{PROGRAM}");
    let command = ["python3", "-u", &program, argument];
    Launch {
        command: command.map(str::to_owned).into(),
        stdin: Stdio::from(control),
        stdout: Stdio::null(),
        arguments_fd: ARGUMENTS_FD,
        data,
        join: Vec::new(),
        user: None,
    }
}

/// One message; an empty one is the end.
async fn message(control: &UnixStream) -> io::Result<Vec<u8>> {
    let mut buffer = [0; 64];
    let read = || Ok(recv(control, &mut buffer[..], RecvFlags::DONTWAIT)?.0);
    let length = control.async_io(Interest::READABLE, read).await?;
    Ok(buffer[..length.min(buffer.len())].to_vec())
}

/// What it has said before it ended.
async fn complaint(stderr: Option<ChildStderr>) -> String {
    let mut text = Vec::new();
    if let Some(stderr) = stderr {
        let read = { stderr.take(STDERR_BYTES) };
        tokio::pin!(read);
        let _ = timeout(Duration::from_secs(1), read.read_to_end(&mut text)).await;
    }
    String::from_utf8_lossy(&text).trim().to_owned()
}
