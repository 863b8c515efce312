//! A backend with a state directory of its own, and ways to look at its sandboxes.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use backend_local::{LocalBackend, LocalConfig};
use sandbox_backend::{Backend as _, Place};
use sandbox_conformance::request;
use sandbox_core::{ByteSize, Limits, RunOutcome, RunRequest, SandboxId, SandboxSpec};
use tempfile::TempDir;

/// Marks a sandbox: the guest's command line shows its disk limit to the host.
static NEXT_MARK: AtomicU32 = AtomicU32::new(1);

/// Ids of host users, so that tests at the same time do not share any.
static NEXT_RANGE: AtomicU32 = AtomicU32::new(0);
const RANGE_START: u32 = 1_900_000_000;
const RANGE_SIZE: u32 = 8;

pub struct Sandboxes {
    pub backend: Arc<LocalBackend>,
    pub config: LocalConfig,
    _dir: TempDir,
}

pub struct Sandbox {
    pub place: Arc<dyn Place>,
    mark: String,
}

impl Sandboxes {
    pub fn new() -> Self {
        Self::with(|_, _| ())
    }

    /// A backend whose settings `change` has changed; it may use the directory.
    pub fn with(change: impl FnOnce(&mut LocalConfig, &Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let guest = dir.path().join("sandbox-guest");
        fs::copy(guest_program(), &guest).unwrap();
        fs::set_permissions(&guest, fs::Permissions::from_mode(0o555)).unwrap();
        let mut config = LocalConfig::new(dir.path().join("state"), guest);
        let start = RANGE_START + RANGE_SIZE * NEXT_RANGE.fetch_add(1, Ordering::Relaxed);
        config.uid_range = start..=start + RANGE_SIZE - 1;
        change(&mut config, dir.path());
        Self {
            backend: LocalBackend::new(config.clone()).unwrap(),
            config,
            _dir: dir,
        }
    }

    pub async fn start(&self, n: u32) -> Sandbox {
        self.start_with(n, Limits::default()).await
    }

    pub async fn start_with(&self, n: u32, mut limits: Limits) -> Sandbox {
        let mark = NEXT_MARK.fetch_add(1, Ordering::Relaxed);
        let unique = u64::from(std::process::id()) << 20 | u64::from(mark);
        limits.disk = ByteSize((1 << 40) + unique);
        let spec = SandboxSpec {
            limits: limits.clone(),
            ..SandboxSpec::default()
        };
        let place = self.backend.create(&id(n), &spec).await.unwrap();
        Sandbox {
            place,
            mark: format!("--file-bytes\0{}\0", limits.disk.bytes()),
        }
    }

    pub fn workspace(&self, n: u32) -> PathBuf {
        self.config
            .state_dir
            .join("workspaces")
            .join(id(n).as_str())
    }
}

impl Sandbox {
    pub async fn run(&self, argv: &[&str]) -> RunOutcome {
        self.run_for(Duration::from_secs(60), argv).await
    }

    pub async fn run_for(&self, timeout: Duration, argv: &[&str]) -> RunOutcome {
        let request = RunRequest {
            timeout,
            ..request(argv)
        };
        let run = self.place.guest().run(request).await.unwrap();
        run.collect().await.unwrap()
    }

    pub async fn sh(&self, script: &str) -> RunOutcome {
        self.run(&["/bin/sh", "-c", script]).await
    }

    /// What a Python program prints; it must end well.
    pub async fn python(&self, program: &str) -> String {
        let outcome = self.run(&["python3", "-c", program]).await;
        assert_eq!(
            (outcome.exit_code, outcome.stderr.to_text().as_str()),
            (0, ""),
            "{program}"
        );
        outcome.stdout.to_text().trim_end().to_owned()
    }

    /// The host's processes of this sandbox whose command line has `word`.
    pub fn processes(&self, word: &str) -> Vec<u32> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).into_owned();
            if command.contains(&self.mark) && command.split('\0').any(|part| part == word) {
                found.push(pid);
            }
        }
        found
    }

    /// bubblewrap, which waits outside for the guest's end.
    pub fn bwrap(&self) -> u32 {
        let found = self.processes("--args");
        assert_eq!(found.len(), 1, "{found:?}");
        found[0]
    }

    /// The sandbox's PID 1.
    pub fn guest(&self) -> u32 {
        let mut found = self.processes("serve");
        // What the guest starts has its command line until it executes another.
        found.retain(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let pids = status.lines().find(|line| line.starts_with("NSpid:"));
            pids.is_some_and(|pids| pids.ends_with("\t1"))
        });
        assert_eq!(found.len(), 1, "{found:?}");
        found[0]
    }
}

pub fn id(n: u32) -> SandboxId {
    format!("{n:032x}").parse().unwrap()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Waits for a state of the host, which nothing announces.
pub async fn until(what: &str, mut reached: impl FnMut() -> bool) {
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
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let status = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--package",
                "sandbox-guest",
                "--target-dir",
            ])
            .arg(target)
            .status()
            .unwrap();
        assert!(status.success(), "the guest could not be built");
        target.join("debug/sandbox-guest")
    })
}
