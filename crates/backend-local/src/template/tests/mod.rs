//! Real templates, forked into real sandboxes and looked at from both sides.

mod doors;
mod figures;
mod lives;
mod orders;
mod seen;
mod shared;

use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use rustix::{
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    process::{Pid, PidfdFlags, pidfd_open},
};
use sandbox_core::{Limits, RunOutcome, SandboxId, SandboxSpec};
use tempfile::TempDir;

use super::{Target, Templates};
use crate::{LocalBackend, LocalConfig, PythonTemplate, error::Result, place::LocalPlace};

const BARE: u8 = b'b';
const SCIENTIFIC: u8 = b's';
/// Host users, apart from those of the other tests.
static NEXT_RANGE: AtomicU32 = AtomicU32::new(1_900_040_000);

struct World {
    backend: LocalBackend,
    config: LocalConfig,
    _dir: TempDir,
}

struct Sandbox {
    place: LocalPlace,
    user: u32,
}

/// A fork of a template, inside a sandbox.
struct Zygote {
    orders: BufReader<UnixStream>,
    /// As the host numbers it.
    pid: u32,
}

/// Whether there can be templates at all.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl World {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut LocalConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let guest = dir.path().join("sandbox-guest");
        fs::copy(guest_program(), &guest).unwrap();
        fs::set_permissions(&guest, fs::Permissions::from_mode(0o555)).unwrap();
        let mut config = LocalConfig::new(dir.path().join("state"), guest);
        let start = NEXT_RANGE.fetch_add(100, Ordering::Relaxed);
        config.uid_range = start..=start + 99;
        config.python_template = Some(PythonTemplate {
            program: include_str!("echo.py").to_owned(),
            files: BTreeMap::new(),
            kinds: BTreeMap::from([
                (BARE, "json".to_owned()),
                (SCIENTIFIC, "numpy pandas matplotlib.pyplot".to_owned()),
            ]),
        });
        change(&mut config);
        Self {
            backend: LocalBackend::prepare(config.clone()).unwrap(),
            config,
            _dir: dir,
        }
    }

    fn templates(&self) -> &Arc<Templates> {
        self.backend.templates.as_ref().unwrap()
    }

    async fn start(&self, n: u32) -> Sandbox {
        self.start_with(n, Limits::default()).await
    }

    async fn start_with(&self, n: u32, limits: Limits) -> Sandbox {
        let id: SandboxId = format!("{n:032x}").parse().unwrap();
        let spec = SandboxSpec {
            limits,
            ..SandboxSpec::default()
        };
        let place = self.backend.start(&id, &spec).await.unwrap();
        let workspace = self.config.state_dir.join("workspaces").join(id.as_str());
        Sandbox {
            place,
            user: fs::metadata(workspace).unwrap().uid(),
        }
    }

    async fn fork(&self, sandbox: &Sandbox) -> Zygote {
        self.fork_kind(BARE, sandbox).await
    }

    async fn fork_kind(&self, kind: u8, sandbox: &Sandbox) -> Zygote {
        self.ready(kind).await;
        let socket = self.try_fork(kind, &sandbox.target()).await.unwrap();
        Zygote::new(socket, sandbox.user)
    }

    async fn try_fork(&self, kind: u8, target: &Target) -> Result<UnixStream> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        self.templates().fork(kind, target, theirs).await?;
        Ok(ours.into())
    }

    /// Waits for a template, however busy the machine is.
    async fn ready(&self, kind: u8) {
        for _ in 0..200 {
            if self.templates().ready(kind).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the template does not start");
    }

    /// The process of the smaller template.
    async fn template(&self) -> u32 {
        self.ready(BARE).await;
        let template = self.templates().ready(BARE).await.unwrap();
        template.pid.cast_unsigned()
    }
}

impl Sandbox {
    fn init(&self) -> u32 {
        let user = self.user.to_string();
        let found =
            processes(|status| status["Uid"].starts_with(&user) && status["NSpid"].ends_with(" 1"));
        assert_eq!(found.len(), 1, "{found:?}");
        found[0]
    }

    fn target(&self) -> Target {
        let init = Pid::from_raw(self.init().cast_signed()).unwrap();
        Target {
            init: pidfd_open(init, PidfdFlags::empty()).unwrap(),
            user: self.user,
            groups: self.place.group.join_files().unwrap(),
        }
    }

    async fn sh(&self, script: &str) -> RunOutcome {
        let request = sandbox_conformance::request(&["/bin/sh", "-c", script]);
        let run = sandbox_backend::Place::guest(&self.place).run(request);
        run.await.unwrap().collect().await.unwrap()
    }

    async fn stop(&self) {
        sandbox_backend::Place::stop(&self.place).await.unwrap();
    }

    /// All host processes of its user.
    fn processes(&self) -> Vec<u32> {
        let user = self.user.to_string();
        processes(|status| status["Uid"].starts_with(&user))
    }
}

impl Zygote {
    fn new(socket: UnixStream, user: u32) -> Self {
        let limit = Some(Duration::from_secs(20));
        socket.set_read_timeout(limit).unwrap();
        let mut zygote = Self {
            orders: BufReader::new(socket),
            pid: 0,
        };
        let inside = zygote.ask("import os; out = os.getpid()");
        let user = user.to_string();
        let found = processes(|status| {
            let last = status["NSpid"].rsplit(' ').next();
            status["Uid"].starts_with(&user) && last == Some(&inside)
        });
        assert_eq!(found.len(), 1, "{inside}: {found:?}");
        zygote.pid = found[0];
        zygote
    }

    /// What the program leaves in `out`.
    fn ask(&mut self, program: &str) -> String {
        self.try_ask(program).unwrap()
    }

    fn try_ask(&mut self, program: &str) -> Option<String> {
        let line = format!("{}\n", json(program));
        self.orders.get_mut().write_all(line.as_bytes()).ok()?;
        let mut answer = String::new();
        self.orders.read_line(&mut answer).ok()?;
        let answer = answer.trim_end().strip_prefix('"')?.strip_suffix('"')?;
        Some(answer.replace("\\n", "\n").replace("\\\"", "\""))
    }

    fn status(&self) -> BTreeMap<String, String> {
        status(self.pid).unwrap()
    }
}

fn json(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('\n', "\\n"))
}

fn status(pid: u32) -> Option<BTreeMap<String, String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let words: Vec<&str> = value.split_whitespace().collect();
        Some((name.to_owned(), words.join(" ")))
    };
    Some(text.lines().filter_map(field).collect())
}

/// Living processes of the host.
fn processes(wanted: impl Fn(&BTreeMap<String, String>) -> bool) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| status(*pid).is_some_and(|it| !it["State"].starts_with('Z') && wanted(&it)))
        .collect()
}

async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if reached() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within ten seconds: {what}");
}

fn guest_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(program) = env::var_os("SANDBOX_GUEST") {
            return program.into();
        }
        // The directory that this test was built in: most of it is there already.
        let test = env::current_exe().unwrap();
        let target = test.ancestors().nth(3).unwrap();
        let package = ["build", "--quiet", "--package", "sandbox-guest"];
        let status = Command::new(env!("CARGO"))
            .args(package)
            .arg("--target-dir")
            .arg(target)
            .status()
            .unwrap();
        assert!(status.success(), "the guest could not be built");
        target.join("debug/sandbox-guest")
    })
}
