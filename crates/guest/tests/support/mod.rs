//! A guest as a plain process of the machine, with a temporary workspace.

#![expect(dead_code, reason = "each test binary uses its part")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub mod wire;

use std::{
    collections::BTreeMap,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use guest_client::GuestClient;
use sandbox_core::{Program, RunOutcome, RunRequest, Script};
use tempfile::TempDir;
use tokio::net::UnixStream;

/// With a folder for temporary files of its own.
struct GuestProcess(Child, TempDir);

impl Drop for GuestProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const GUEST: &str = env!("CARGO_BIN_EXE_sandbox-guest");

fn start(workspace: &TempDir, options: &[&str]) -> (GuestProcess, UnixStream) {
    start_by(Command::new(GUEST), workspace, options)
}

fn start_by(
    mut command: Command,
    workspace: &TempDir,
    options: &[&str],
) -> (GuestProcess, UnixStream) {
    let (ours, theirs) = StdUnixStream::pair().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let process = command
        .args(["serve", "--workspace"])
        .arg(workspace.path())
        .args(options)
        .env("TMPDIR", temporary.path())
        .env("HOME", temporary.path())
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .unwrap();
    ours.set_nonblocking(true).unwrap();
    let process = GuestProcess(process, temporary);
    (process, UnixStream::from_std(ours).unwrap())
}

/// A guest, spoken to as the service does.
pub struct TestGuest {
    pub client: GuestClient,
    pub workspace: TempDir,
    process: GuestProcess,
}

/// A guest, spoken to as anybody may who knows the public contract.
pub struct WireGuest {
    pub wire: wire::Wire,
    pub workspace: TempDir,
    _process: GuestProcess,
}

impl WireGuest {
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    pub async fn with(options: &[&str]) -> Self {
        let workspace = tempfile::tempdir().unwrap();
        let (process, stream) = start(&workspace, options);
        Self {
            wire: wire::Wire::connect(stream).await,
            workspace,
            _process: process,
        }
    }
}

impl TestGuest {
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    pub async fn with(options: &[&str]) -> Self {
        Self::by(Command::new(GUEST), options).await
    }

    /// As `nohup` and a shell's `&` start it: signals are ignored.
    pub async fn ignoring(signals: &str) -> Self {
        let mut shell = Command::new("sh");
        let begin = format!("trap '' {signals}; exec \"$0\" \"$@\"");
        shell.args(["-c", &begin, GUEST]);
        Self::by(shell, &[]).await
    }

    async fn by(command: Command, options: &[&str]) -> Self {
        let workspace = tempfile::tempdir().unwrap();
        let (process, stream) = start_by(command, &workspace, options);
        let client = GuestClient::connect(stream).await.unwrap();
        client.ready_within(Duration::from_secs(10)).await.unwrap();
        Self {
            client,
            workspace,
            process,
        }
    }

    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub async fn bash(&self, command: &str) -> RunOutcome {
        self.run(bash(command)).await
    }

    pub async fn run(&self, request: RunRequest) -> RunOutcome {
        let run = self.client.run(request).await.unwrap();
        run.collect().await.unwrap()
    }
}

pub fn bash(command: &str) -> RunRequest {
    RunRequest {
        program: Program {
            argv: vec!["bash".into(), "-c".into(), command.into()],
            script: None,
        },
        env: BTreeMap::new(),
        cwd: None,
        stdin: Default::default(),
        timeout: Duration::from_secs(20),
        output_limit: 1024 * 1024,
        live: false,
        spill_limit: 0,
        artifacts: None,
        python_display: false,
        context: None,
    }
}

pub fn python(source: &'static str) -> RunRequest {
    RunRequest {
        program: Program {
            argv: vec!["/usr/bin/python3".into(), "{file}".into()],
            script: Some(Script {
                compile: Vec::new(),
                file_name: "main.py".into(),
                source: source.into(),
            }),
        },
        ..bash("")
    }
}

/// Waits until a condition holds; fails after ten seconds.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain until {what}");
}

/// Whether a process exists and is not a zombie.
pub fn alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .is_ok_and(|stat| !stat.contains(") Z "))
}
