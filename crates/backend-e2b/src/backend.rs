//! The backend: makes, finds, pauses and ends sandboxes.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use e2b_wire::{FileOperation, ListedSandbox, SandboxState};
use sandbox_backend::{Backend, Earlier, Found, Place, Problem, Readiness};
use sandbox_core::{
    Capabilities, Capability, Enforcement, Error, ErrorCode, Result, SandboxId, SandboxSpec, chain,
};
use tokio::sync::{OnceCell, OwnedMutexGuard};
use tracing::{info, warn};

use crate::{
    config::E2bConfig,
    control::{Control, Pausing},
    enter::Ways,
    envd::Envd,
    error::unavailable,
    guest::Program,
    http_client::HttpClient,
    names,
    slots::{Slot, Slots, Theirs},
};

/// How long an earlier sandbox with the same id may take to be gone.
const EARLIER_LIMIT: Duration = Duration::from_secs(20);

pub struct E2bBackend(Arc<Inner>);

pub(crate) struct Inner {
    pub config: E2bConfig,
    pub http: HttpClient,
    pub control: Control,
    pub program: Program,
    pub ways: Ways,
    pub slots: Slots,
    /// What is there since before this service is known.
    pub found: OnceCell<()>,
    pub earlier: Earlier,
    /// The server has refused to pause.
    pub cannot_pause: AtomicBool,
}

impl E2bBackend {
    /// The server is not asked yet.
    pub fn new(config: E2bConfig) -> Result<Arc<Self>> {
        let http = HttpClient::new().map_err(Error::internal)?;
        Ok(Arc::new(Self(Arc::new(Inner {
            control: Control::new(http.clone(), config.servers.api(), &config.api_key)?,
            program: Program::new(config.guest.clone()),
            ways: Ways::new(config.door),
            slots: Slots::default(),
            found: OnceCell::new(),
            earlier: Earlier::new(EARLIER_LIMIT),
            cannot_pause: AtomicBool::new(false),
            http,
            config,
        }))))
    }

    /// Where anybody reads or writes one file of a sandbox, past this service, until
    /// `expires` in Unix seconds.
    pub async fn file_url(
        &self,
        id: &SandboxId,
        path: &str,
        operation: FileOperation,
        expires: i64,
    ) -> Result<String> {
        let inner = &self.0;
        inner.find_once().await?;
        let none = || Error::new(ErrorCode::NotFound, "there is no such sandbox");
        let theirs = inner.slots.theirs(id).await.ok_or_else(none)?;
        let connected = inner.control.connect(&theirs.id, inner.config.life).await?;
        let envd = Envd::new(
            &inner.http,
            &inner.config.servers,
            &connected.ok_or_else(none)?,
        )?;
        Ok(envd.file_url(path, operation, expires))
    }
}

impl Inner {
    pub fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::from([Capability::Exec, Capability::Files]);
        if !self.cannot_pause.load(Ordering::Relaxed) {
            capabilities.insert(Capability::PersistentWorkspace);
        }
        if self.config.python_preload.is_some() && !self.ways.is_alone() {
            capabilities.insert(Capability::WarmPython);
        }
        if self.config.allow_internet {
            capabilities.insert(Capability::Network);
        }
        capabilities
    }

    /// All that are this service's; of two with the same id, the newer one.
    async fn look(&self) -> Result<HashMap<SandboxId, ListedSandbox>> {
        let owner = [(names::OWNER, self.config.owner.as_str())];
        let mut all = self.control.list(&owner).await?;
        all.sort_by_key(|it| it.started_at);
        let mut newest: HashMap<SandboxId, ListedSandbox> = HashMap::new();
        for listed in all {
            let metadata = listed.metadata.as_ref();
            // A server that ignores the filter shows what is others'.
            if metadata.and_then(|it| it.get(names::OWNER)) != Some(&self.config.owner) {
                continue;
            }
            let Some(id) = metadata.and_then(names::sandbox) else {
                continue;
            };
            if let Some(older) = newest.insert(id.clone(), listed) {
                warn!(sandbox.id = %id, "a sandbox was made twice, the older one is ended");
                self.control.kill(&older.sandbox_id).await?;
            }
        }
        Ok(newest)
    }

    pub async fn find_once(&self) -> Result<()> {
        let find = || async {
            for (id, listed) in self.look().await? {
                self.slots.found(id, theirs(&listed));
            }
            Ok(())
        };
        self.found.get_or_try_init(find).await.copied()
    }

    /// A sandbox whose guest has ended is paused soon.
    pub fn rest(self: &Arc<Self>, id: &SandboxId) {
        let inner = Arc::clone(self);
        let named = id.clone();
        self.slots.rest(id, move |slot| async move {
            inner.pause_or_tell(&named, slot).await;
        });
    }

    pub async fn pause_or_tell(&self, id: &SandboxId, slot: OwnedMutexGuard<Slot>) {
        if let Err(error) = self.pause(id, slot).await {
            // E2B does it when the sandbox's time is over.
            warn!(sandbox.id = %id, "failed to pause a sandbox: {}", chain(&error));
        }
    }

    async fn pause(&self, id: &SandboxId, mut slot: OwnedMutexGuard<Slot>) -> Result<()> {
        let Some(theirs) = slot.theirs.clone() else {
            return Ok(());
        };
        match self.control.pause(&theirs.id).await? {
            Pausing::Paused => return Ok(()),
            Pausing::Gone => {}
            Pausing::Unsupported => {
                if !self.cannot_pause.swap(true, Ordering::Relaxed) {
                    warn!("the E2B server cannot pause: workspaces end with their sandboxes");
                }
                self.control.kill(&theirs.id).await?;
            }
        }
        slot.theirs = None;
        self.slots.forget(id);
        Ok(())
    }

    pub async fn end(&self, id: &SandboxId) -> Result<()> {
        self.find_once().await?;
        let slot = self.slots.take(id).await;
        self.pause(id, slot).await
    }

    async fn remove(&self, id: &SandboxId) -> Result<()> {
        self.wait_for_earlier(id).await?;
        self.find_once().await?;
        let mut slot = self.slots.take(id).await;
        if let Some(theirs) = &slot.theirs {
            self.control.kill(&theirs.id).await?;
        }
        slot.theirs = None;
        self.slots.forget(id);
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Found>> {
        let all = self.look().await?;
        let mut found = Vec::with_capacity(all.len());
        for (id, listed) in all {
            self.slots.found(id.clone(), theirs(&listed));
            let running = listed.state == SandboxState::Running && !self.slots.is_ours(&id);
            found.push(Found { id, running });
        }
        Ok(found)
    }

    pub async fn wait_for_earlier(&self, id: &SandboxId) -> Result<()> {
        match self.earlier.is_gone(id).await {
            true => Ok(()),
            false => Err(unavailable(
                "the session's earlier sandbox has not ended yet",
            )),
        }
    }
}

fn theirs(listed: &ListedSandbox) -> Theirs {
    let internet = listed
        .metadata
        .as_ref()
        .and_then(|it| it.get(names::INTERNET));
    Theirs {
        id: listed.sandbox_id.clone(),
        internet: internet.is_some_and(|it| it == "true"),
    }
}

#[async_trait]
impl Backend for E2bBackend {
    fn name(&self) -> &'static str {
        "e2b"
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn enforcement(&self) -> Enforcement {
        Enforcement::from([
            ("cpus", "template"),
            ("disk", "rlimit and watch"),
            ("guest", self.0.ways.name()),
            ("memory", "template"),
            ("pids", "rlimit"),
            ("tmp", "template"),
        ])
    }

    async fn check(&self) -> Readiness {
        let mut problems = Vec::new();
        if let Err(error) = self.0.control.look().await {
            info!("the E2B server is not ready: {}", chain(&error));
            problems.push(Problem::new(
                error.detail(),
                "look at E2B_API_KEY, at E2B_API_URL or E2B_DOMAIN, and at the way there",
            ));
        }
        Readiness { problems }
    }

    async fn create(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<Arc<dyn Place>> {
        // In a task: who waits may give up, and what is half made would be nobody's.
        let starting = Arc::clone(&self.0).start(id.clone(), spec.clone());
        let place = tokio::spawn(starting).await.map_err(Error::internal)??;
        Ok(Arc::new(place))
    }

    async fn list(&self) -> Result<Vec<Found>> {
        self.0.list().await
    }

    async fn end(&self, id: &SandboxId) -> Result<()> {
        self.0.end(id).await
    }

    async fn remove(&self, id: &SandboxId) -> Result<()> {
        self.0.remove(id).await
    }

    async fn close(&self) {
        self.0.slots.close().await;
    }
}
