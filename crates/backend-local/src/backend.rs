//! Making local sandboxes.

use std::{
    fs, io,
    ops::RangeInclusive,
    os::unix::{fs::MetadataExt as _, net::UnixStream as StdUnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use guest_client::{GuestClient, GuestConfig};
use sandbox_backend::{Backend, Place, Problem, Readiness};
use sandbox_core::{
    Capabilities, Capability, Enforcement, Error, ErrorCode, Limits, Result, SandboxId, SandboxSpec,
};
use tokio::net::UnixStream;

use crate::{
    cgroup::{Cgroups, Controller, Group, Version},
    place::{Bwrap, LocalPlace},
    rootfs::Rootfs,
    seccomp::{Filters, memory_file},
    spawn::{Launch, Launcher},
    workspaces::Workspaces,
};

/// Descriptors of bubblewrap: it reads them and closes them before the guest starts.
const BOOT_ID_FD: i32 = 4;
const SECCOMP_FDS: [i32; 2] = [5, 6];

#[derive(Clone, Debug)]
pub struct LocalConfig {
    pub state_dir: PathBuf,
    /// The guest's program; every user must be able to run it.
    pub guest: PathBuf,
    /// A path, or a name that is looked up on PATH.
    pub bwrap: PathBuf,
    /// Host users of sandboxes, when the service is root.
    pub uid_range: RangeInclusive<u32>,
    /// Shown to every sandbox at the same path.
    pub read_only_paths: Vec<PathBuf>,
    pub start_timeout: Duration,
}

pub struct LocalBackend {
    config: LocalConfig,
    rootfs: Rootfs,
    filters: Filters,
    cgroups: Cgroups,
    workspaces: Arc<Workspaces>,
    launcher: Launcher,
    /// What the last self-test found; `None` while it has not ended.
    tested: Mutex<Option<Vec<Problem>>>,
}

impl LocalBackend {
    pub fn new(config: LocalConfig) -> Result<Arc<Self>> {
        let failed = |error: io::Error| {
            Error::new(
                ErrorCode::BackendUnavailable,
                "local sandboxes cannot be prepared",
            )
            .with_source(error)
        };
        Ok(Arc::new(Self {
            rootfs: Rootfs::new(&config).map_err(failed)?,
            filters: Filters::new().map_err(failed)?,
            cgroups: Cgroups::find(),
            workspaces: Arc::new(
                Workspaces::open(&config.state_dir, config.uid_range.clone()).map_err(failed)?,
            ),
            launcher: Launcher::start().map_err(failed)?,
            tested: Mutex::new(None),
            config,
        }))
    }

    /// Tries what a sandbox must hold, with throwaway ones; until it has been
    /// passed the backend is not ready.
    pub async fn self_test(&self) -> Vec<Problem> {
        let problems = crate::self_test::run(self).await;
        *self.tested.lock().unwrap_or_else(PoisonError::into_inner) = Some(problems.clone());
        problems
    }

    pub(crate) fn by_cgroup(&self, controller: Controller) -> bool {
        self.cgroups.version(controller).is_some()
    }

    async fn start(&self, id: &SandboxId, spec: &SandboxSpec) -> io::Result<LocalPlace> {
        let workspaces = Arc::clone(&self.workspaces);
        let claimed = id.clone();
        let workspace = tokio::task::spawn_blocking(move || workspaces.claim(&claimed))
            .await
            .map_err(io::Error::other)??;
        let group = self.cgroups.create(id.as_str(), &spec.limits)?;
        match self.start_in(&group, &workspace.path, workspace.uid, spec).await {
            Ok((guest, bwrap)) => Ok(LocalPlace::new(guest, bwrap, group)),
            Err(error) => {
                let _ = tokio::task::spawn_blocking(move || group.remove()).await;
                Err(error)
            }
        }
    }

    async fn start_in(
        &self,
        group: &Group,
        workspace: &Path,
        uid: Option<u32>,
        spec: &SandboxSpec,
    ) -> io::Result<(GuestClient, Bwrap)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        let [allow, refuse] = self.filters.descriptors()?;
        let boot_id = memory_file(&random_boot_id()?)?;
        let mut command = Command::new(&self.config.bwrap);
        command
            .args(self.rootfs.arguments(
                workspace,
                BOOT_ID_FD,
                &spec.limits,
                &SECCOMP_FDS,
                &self.guest_flags(&spec.limits),
            ))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = self
            .launcher
            .launch(Launch {
                command,
                cgroups: group.joins()?,
                fds: vec![
                    (boot_id, BOOT_ID_FD),
                    (allow, SECCOMP_FDS[0]),
                    (refuse, SECCOMP_FDS[1]),
                ],
                uid,
            })
            .await?;
        let bwrap = Bwrap::new(child);
        match self.meet(ours, spec).await {
            Ok(guest) => Ok((guest, bwrap)),
            Err(error) => {
                let complaint = tokio::task::spawn_blocking(move || bwrap.reap())
                    .await
                    .unwrap_or_default();
                Err(io::Error::other(format!("{error}; bubblewrap said: {complaint}")))
            }
        }
    }

    async fn meet(&self, ours: StdUnixStream, spec: &SandboxSpec) -> Result<GuestClient> {
        ours.set_nonblocking(true).map_err(Error::internal)?;
        let stream = UnixStream::from_std(ours).map_err(Error::internal)?;
        let guest = GuestClient::connect(stream).await?;
        guest.ready_within(self.config.start_timeout).await?;
        let config = GuestConfig {
            env: spec.env.clone(),
        };
        guest.init(&config).await?;
        Ok(guest)
    }

    /// What no control group enforces is left to the guest's rlimits.
    fn guest_flags(&self, limits: &Limits) -> Vec<String> {
        let mut flags = vec!["--file-bytes".into(), limits.disk.bytes().to_string()];
        if !self.by_cgroup(Controller::Pids) {
            flags.extend(["--nproc".into(), limits.pids.to_string()]);
        }
        if !self.by_cgroup(Controller::Memory) {
            flags.extend(["--data-bytes".into(), limits.memory.bytes().to_string()]);
        }
        flags
    }

    /// As root, sandboxes run as users who must pass through the folders above theirs.
    fn untraversable(&self) -> Option<PathBuf> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let dir = fs::canonicalize(&self.config.state_dir).ok()?;
        dir.ancestors()
            .find(|dir| fs::metadata(dir).is_ok_and(|meta| meta.mode() & 0o001 == 0))
            .map(Path::to_owned)
    }
}

/// Like the kernel's, but of this sandbox alone.
fn random_boot_id() -> io::Result<Vec<u8>> {
    fs::read("/proc/sys/kernel/random/uuid")
}

#[async_trait]
impl Backend for LocalBackend {
    fn name(&self) -> &'static str {
        "local"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::from([
            Capability::Exec,
            Capability::Files,
            Capability::PersistentWorkspace,
        ])
    }

    fn enforcement(&self) -> Enforcement {
        let by = |controller, otherwise| match self.cgroups.version(controller) {
            Some(Version::V2) => "cgroup v2",
            Some(Version::V1) => "cgroup v1",
            None => otherwise,
        };
        Enforcement::from([
            ("memory", by(Controller::Memory, "rlimit (per process)")),
            ("pids", by(Controller::Pids, "rlimit")),
            ("cpus", by(Controller::Cpu, "none")),
            ("disk", "rlimit (per file)"),
            ("tmp", "tmpfs"),
        ])
    }

    async fn check(&self) -> Readiness {
        let mut problems = Vec::new();
        if let Some(problem) = crate::diagnose::bwrap_problem(&self.config.bwrap) {
            problems.push(problem);
        }
        if let Some(dir) = self.untraversable() {
            problems.push(Problem::new(
                format!("the users of sandboxes cannot pass through `{}`", dir.display()),
                "chmod o+x it, or set state_dir to another folder",
            ));
        }
        match &*self.tested.lock().unwrap_or_else(PoisonError::into_inner) {
            None => problems.push(Problem::new(
                "the self-test of sandboxes has not ended",
                "wait a moment",
            )),
            Some(found) => problems.extend(found.iter().cloned()),
        }
        Readiness { problems }
    }

    async fn create(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<Arc<dyn Place>> {
        if !spec.required().is_subset(&self.capabilities()) {
            return Err(Error::new(
                ErrorCode::Unsupported,
                "local sandboxes have no network",
            ));
        }
        match self.start(id, spec).await {
            Ok(place) => Ok(Arc::new(place)),
            Err(error) => Err(Error::new(
                ErrorCode::BackendUnavailable,
                "the sandbox could not be made; /readyz and the log say why",
            )
            .with_retry_after(Duration::from_secs(5))
            .with_source(error)),
        }
    }

    async fn list(&self) -> Result<Vec<SandboxId>> {
        let workspaces = Arc::clone(&self.workspaces);
        tokio::task::spawn_blocking(move || workspaces.list())
            .await
            .map_err(Error::internal)?
            .map_err(Error::internal)
    }

    async fn remove(&self, id: &SandboxId) -> Result<()> {
        let workspaces = Arc::clone(&self.workspaces);
        let id = id.clone();
        tokio::task::spawn_blocking(move || workspaces.remove(&id))
            .await
            .map_err(Error::internal)?
            .map_err(Error::internal)
    }
}
