//! The backend: makes, finds and removes local sandboxes.

use std::{
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use guest_client::{GuestClient, GuestConfig};
use sandbox_backend::{Backend, Earlier, Found, Place, Problem, Readiness};
use sandbox_core::{
    Capabilities, Capability, Enforcement, Error, ErrorCode, Limits, Result, SandboxId,
    SandboxSpec, chain,
};
use tokio::{net::UnixStream, time::timeout};

use crate::{
    arguments::{ALLOW_FD, ARGUMENTS_FD, BOOT_ID_FD, REFUSE_FD, arguments, guest_command},
    bwrap,
    cgroup::{Cgroups, Group},
    config::LocalConfig,
    error::{Context as _, Failure},
    place::LocalPlace,
    process::Process,
    rootfs::Rootfs,
    seccomp::Filters,
    self_test,
    spawn::{Launch, Spawner},
    state::{StateDir, reach_problems},
    template::{Door, Templates},
    tree::remove_tree,
    workspaces::{Workspace, Workspaces, trash_left},
};

/// A failed self-test is made again when somebody asks after this long.
const TEST_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// How long an earlier sandbox with the same id may take to be gone.
const EARLIER_LIMIT: Duration = Duration::from_secs(10);

pub struct LocalBackend {
    pub(crate) config: LocalConfig,
    pub(crate) state: StateDir,
    rootfs: Rootfs,
    filters: Filters,
    workspaces: Arc<Workspaces>,
    cgroups: Arc<Cgroups>,
    spawner: Arc<Spawner>,
    /// Where there may be any.
    pub(crate) templates: Option<Arc<Templates>>,
    earlier: Earlier,
    tested: Mutex<Option<Tested>>,
    /// One self-test at a time.
    testing: tokio::sync::Mutex<()>,
}

struct Tested {
    at: Instant,
    problems: Vec<Problem>,
}

impl LocalBackend {
    /// Prepares the state directory and the cgroups; starts no sandbox.
    pub fn new(config: LocalConfig) -> Result<Arc<Self>> {
        Self::prepare(config).map(Arc::new).map_err(|failure| {
            Error::new(
                ErrorCode::BackendUnavailable,
                format!("local sandboxes cannot be set up: {}", chain(&failure)),
            )
        })
    }

    pub(crate) fn prepare(mut config: LocalConfig) -> crate::error::Result<Self> {
        if config.uid_range.is_empty() || *config.uid_range.start() == 0 {
            return Err(Failure::new("uid_range is empty or starts with root"));
        }
        config.guest = config
            .guest
            .canonicalize()
            .context(|| format!("failed to find `{}`", config.guest.display()))?;
        let state = StateDir::open(&config.state_dir)?;
        let is_root = rustix::process::geteuid().is_root();
        let workspaces = Workspaces::open(&state, is_root.then(|| config.uid_range.clone()))?;
        let rootfs = Rootfs::make(&state, &config.read_only_paths)?;
        let left = trash_left(&state)?;
        // Ends by itself with the last of them.
        std::thread::Builder::new()
            .name("sandbox-trash".into())
            .spawn(move || {
                for path in left {
                    if let Err(error) = remove_tree(&path) {
                        tracing::warn!(%error, "failed to remove `{}`", path.display());
                    }
                }
            })
            .context(|| "failed to start a thread".into())?;
        let spawner = Spawner::start().context(|| "failed to start a thread".into())?;
        let spawner = Arc::new(spawner);
        let filters = Filters::build()?;
        let python = config.python_template.clone().filter(|_| is_root);
        let templates = python
            .and_then(|python| Some((python, bwrap::find(&config.bwrap).ok()?)))
            .map(|(python, bwrap)| {
                Templates::new(bwrap, &rootfs, python, &filters, Arc::clone(&spawner))
            });
        Ok(Self {
            rootfs,
            filters,
            templates,
            workspaces: Arc::new(workspaces),
            cgroups: Arc::new(Cgroups::set_up()),
            spawner,
            earlier: Earlier::new(EARLIER_LIMIT),
            tested: Mutex::default(),
            testing: tokio::sync::Mutex::default(),
            state,
            config,
        })
    }

    /// Whether each sandbox runs as a host user of its own.
    pub(crate) fn changes_user(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    pub(crate) fn cgroups(&self) -> &Cgroups {
        &self.cgroups
    }

    /// Makes throwaway sandboxes and tries to break out of them. What it finds
    /// gates [`Backend::check`] and [`Backend::create`] until the next time.
    pub async fn self_test(&self) -> Vec<Problem> {
        let _one_at_a_time = self.testing.lock().await;
        let problems = self_test::run(self).await;
        *self.tested() = Some(Tested {
            at: Instant::now(),
            problems: problems.clone(),
        });
        // Not before, for the imports would take the test's time.
        if let (Some(templates), true) = (&self.templates, problems.is_empty()) {
            templates.warm();
        }
        problems
    }

    fn tested(&self) -> MutexGuard<'_, Option<Tested>> {
        self.tested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the last self-test found; `None` before the first.
    async fn test_result(&self) -> Option<Vec<Problem>> {
        let stale = match &*self.tested() {
            Some(tested) => !tested.problems.is_empty() && tested.at.elapsed() > TEST_AGAIN_AFTER,
            None => false,
        };
        if stale && self.testing.try_lock().is_ok() {
            return Some(self.self_test().await);
        }
        self.tested().as_ref().map(|tested| tested.problems.clone())
    }

    /// Waits until an earlier sandbox with this id is gone, and its workspace free.
    async fn wait_for_earlier(&self, id: &SandboxId) -> Result<()> {
        match self.earlier.is_gone(id).await {
            true => Ok(()),
            false => Err(Error::new(
                ErrorCode::BackendUnavailable,
                "the session's earlier sandbox has not ended yet",
            )),
        }
    }

    pub(crate) async fn start(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<LocalPlace> {
        if let Some(missing) = spec.required().difference(&self.capabilities()).next() {
            return Err(Error::new(
                ErrorCode::Unsupported,
                format!("local sandboxes do not have the capability {missing:?}"),
            ));
        }
        let bwrap = bwrap::find(&self.config.bwrap)
            .map_err(|problem| Failure::new(format!("{}: {}", problem.what, problem.fix)))?;
        self.wait_for_earlier(id).await?;
        let (workspace, group) = self.prepare_place(id, spec).await?;

        let (ours, theirs) = StdUnixStream::pair().map_err(Error::internal)?;
        ours.set_nonblocking(true).map_err(Error::internal)?;
        let guest =
            GuestClient::connect(UnixStream::from_std(ours).map_err(Error::internal)?).await?;
        let group = Arc::new(group);
        let (launch, asked) = self.launch(spec, &workspace, &group, theirs)?;
        let command = launch
            .into_command(&bwrap)
            .context(|| "failed to prepare the start of bubblewrap".into())?;
        let mut child = self
            .spawner
            .spawn(command)
            .await
            .context(|| format!("failed to start `{}`", bwrap.display()))?;
        let stderr = child.stderr.take();
        let process = Process::new(child).context(|| "failed to watch bubblewrap".into())?;
        let bwrap = process.parent();
        let (place, complaint) = LocalPlace::new(
            guest,
            process,
            Arc::clone(&group),
            spec.clone(),
            self.cgroups.limits_all(),
            stderr,
            Arc::clone(&self.spawner),
        );
        self.earlier.is(id, place.ended());
        if let (Some(asked), Some(templates), Some(user)) = (asked, &self.templates, workspace.user)
        {
            let door = Door::new(asked, Arc::clone(templates), bwrap, group, user)
                .context(|| "failed to use a socket".into())?;
            // Ends with the sandbox.
            tokio::spawn(door.serve(place.ended()));
        }

        if let Err(error) = self.make_ready(&place, spec).await {
            place.stop().await?;
            let complaint = timeout(Duration::from_secs(1), complaint).await;
            let complaint = complaint
                .ok()
                .and_then(|told| told.ok())
                .unwrap_or_default();
            return Err(
                Error::new(ErrorCode::BackendUnavailable, "the sandbox did not start").with_source(
                    Failure::because(format!("the sandbox did not start: `{complaint}`"), error),
                ),
            );
        }
        Ok(place)
    }

    /// The workspace and the cgroups, with their limits set.
    async fn prepare_place(
        &self,
        id: &SandboxId,
        spec: &SandboxSpec,
    ) -> Result<(Workspace, Group)> {
        let (workspaces, cgroups) = (Arc::clone(&self.workspaces), Arc::clone(&self.cgroups));
        let (id, limits) = (id.clone(), spec.limits.clone());
        tokio::task::spawn_blocking(move || {
            let workspace = workspaces.take(&id)?;
            let group = cgroups.make(&id)?;
            group.set_limits(&limits)?;
            Ok((workspace, group))
        })
        .await
        .map_err(Error::internal)?
        .map_err(|failure: Failure| failure.into())
    }

    /// And where its guest asks for warm interpreters.
    fn launch(
        &self,
        spec: &SandboxSpec,
        workspace: &Workspace,
        group: &Group,
        connection: StdUnixStream,
    ) -> crate::error::Result<(Launch, Option<StdUnixStream>)> {
        let (limits, cgroups) = (&spec.limits, &self.cgroups);
        let (asked, stdout) = match self.templates {
            Some(_) => {
                let (ours, theirs) =
                    StdUnixStream::pair().context(|| "failed to make a socket".into())?;
                (Some(ours), Stdio::from(OwnedFd::from(theirs)))
            }
            None => (None, Stdio::null()),
        };
        let (memory, pids) = (cgroups.limits_memory(), cgroups.limits_pids());
        let launch = Launch {
            command: guest_command(
                limits,
                memory,
                pids,
                self.config.python_preload.as_deref(),
                self.templates.is_some(),
            ),
            stdin: Stdio::from(OwnedFd::from(connection)),
            stdout,
            arguments_fd: ARGUMENTS_FD,
            data: self.data(workspace, limits)?,
            join: group.join_files()?,
            user: workspace.user,
        };
        Ok((launch, asked))
    }

    /// What bubblewrap reads from its descriptors.
    fn data(
        &self,
        workspace: &Workspace,
        limits: &Limits,
    ) -> crate::error::Result<Vec<(i32, Vec<u8>)>> {
        let arguments = arguments(&self.rootfs, &workspace.path, &self.config.guest, limits);
        let boot_id = std::fs::read("/proc/sys/kernel/random/uuid")
            .context(|| "failed to make a boot id".into())?;
        Ok(vec![
            (ARGUMENTS_FD, arguments.as_bytes().to_vec()),
            (ALLOW_FD, self.filters.allow.clone()),
            (REFUSE_FD, self.filters.refuse.clone()),
            (BOOT_ID_FD, boot_id),
        ])
    }

    async fn make_ready(&self, place: &LocalPlace, spec: &SandboxSpec) -> Result<()> {
        let limit = self.config.start_timeout;
        let config = GuestConfig {
            env: spec.env.clone(),
        };
        timeout(limit, async {
            place.guest().ready_within(limit).await?;
            place.guest().init(&config).await
        })
        .await
        .map_err(|_| Error::new(ErrorCode::Timeout, "the sandbox did not start in time"))?
    }
}

#[async_trait]
impl Backend for LocalBackend {
    fn name(&self) -> &'static str {
        "local"
    }

    fn capabilities(&self) -> Capabilities {
        // No network: the only one there is to give is the host's, with this
        // service on its loopback.
        let mut capabilities = Capabilities::from([
            Capability::Exec,
            Capability::Files,
            Capability::PersistentWorkspace,
            Capability::Limits,
            Capability::Init,
            Capability::Freeze,
        ]);
        if self.config.python_preload.is_some() {
            capabilities.insert(Capability::WarmPython);
        }
        capabilities
    }

    fn enforcement(&self) -> Enforcement {
        self.cgroups.enforcement()
    }

    async fn check(&self) -> Readiness {
        let mut problems = Vec::new();
        problems.extend(bwrap::find(&self.config.bwrap).err());
        if self.changes_user() {
            problems.extend(reach_problems(&self.state, &self.config.guest));
        }
        match self.test_result().await {
            None => problems.push(Problem::new(
                "the self-test of local sandboxes has not ended yet",
                "wait a few seconds",
            )),
            Some(found) => {
                let new = found.into_iter().filter(|found| !problems.contains(found));
                problems.extend(new.collect::<Vec<_>>());
            }
        }
        Readiness { problems }
    }

    async fn create(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<Arc<dyn Place>> {
        if self
            .test_result()
            .await
            .is_some_and(|problems| !problems.is_empty())
        {
            return Err(Error::new(
                ErrorCode::BackendUnavailable,
                "local sandboxes did not pass their self-test",
            ));
        }
        Ok(Arc::new(self.start(id, spec).await?))
    }

    async fn list(&self) -> Result<Vec<Found>> {
        let mut ids = self.workspaces.list();
        ids.retain(|id| !self_test::is_own(id));
        // Its sandboxes end with the service.
        let stopped = |id| Found { id, running: false };
        Ok(ids.into_iter().map(stopped).collect())
    }

    /// None outlives its service.
    async fn end(&self, _: &SandboxId) -> Result<()> {
        Ok(())
    }

    async fn close(&self) {
        if let Some(templates) = &self.templates {
            templates.close().await;
        }
    }

    async fn remove(&self, id: &SandboxId) -> Result<()> {
        self.wait_for_earlier(id).await?;
        let (workspaces, id) = (Arc::clone(&self.workspaces), id.clone());
        tokio::task::spawn_blocking(move || workspaces.remove(&id))
            .await
            .map_err(Error::internal)?
            .map_err(Error::internal)
    }
}
