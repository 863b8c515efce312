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
use e2b_wire::{FileOperation, ListedSandbox, NetworkConfig, NewSandbox, Sandbox, SandboxState};
use guest_client::GuestConfig;
use sandbox_backend::{Backend, Earlier, Found, Place, Problem, Readiness};
use sandbox_core::{
    Capabilities, Capability, Enforcement, Error, ErrorCode, NetworkPolicy, Result, SandboxId,
    SandboxSpec, chain,
};
use tokio::{
    sync::{OnceCell, OwnedMutexGuard},
    time::timeout,
};
use tracing::{info, warn};

use crate::{
    config::E2bConfig,
    control::{Control, Pausing},
    door::{Entrance, greet},
    enter::{Entered, Ways},
    envd::Envd,
    error::unavailable,
    guest::Program,
    http_client::HttpClient,
    names,
    place::{E2bPlace, Running},
    slots::{Slot, Slots, Theirs},
    usage::Told,
};

/// How long an earlier sandbox with the same id may take to be gone.
const EARLIER_LIMIT: Duration = Duration::from_secs(20);

pub struct E2bBackend(Arc<Inner>);

struct Inner {
    config: E2bConfig,
    http: HttpClient,
    control: Control,
    program: Program,
    ways: Ways,
    slots: Slots,
    /// What is there since before this service is known.
    found: OnceCell<()>,
    earlier: Earlier,
    /// The server has refused to pause.
    cannot_pause: AtomicBool,
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
    fn capabilities(&self) -> Capabilities {
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

    fn check_spec(&self, spec: &SandboxSpec) -> Result<()> {
        if let Some(missing) = spec.required().difference(&self.capabilities()).next() {
            return Err(unsupported(format!(
                "sandboxes of E2B do not have the capability {missing:?}"
            )));
        }
        if spec.limits != self.config.limits {
            return Err(unsupported(
                "sandboxes of E2B have the limits of their template alone",
            ));
        }
        Ok(())
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

    async fn find_once(&self) -> Result<()> {
        let find = || async {
            for (id, listed) in self.look().await? {
                self.slots.found(id, theirs(&listed));
            }
            Ok(())
        };
        self.found.get_or_try_init(find).await.copied()
    }

    async fn start(self: Arc<Self>, id: SandboxId, spec: SandboxSpec) -> Result<E2bPlace> {
        if let Err(refused) = self.check_spec(&spec) {
            // What the operator has taken back does not run on.
            self.end(&id).await?;
            return Err(refused);
        }
        self.wait_for_earlier(&id).await?;
        self.find_once().await?;
        let mut slot = self.slots.take(&id).await;
        let (sandbox, fresh) = match self.resume(&slot, &spec).await? {
            Some(sandbox) => (sandbox, false),
            None => {
                let sandbox = self.make(&id, &spec).await?;
                slot.theirs = Some(Theirs {
                    id: sandbox.sandbox_id.clone(),
                    internet: wants_internet(&spec),
                });
                (sandbox, true)
            }
        };
        match self.enter(&id, &sandbox, &spec, fresh).await {
            Ok(place) => {
                self.earlier.is(&id, place.ended());
                Ok(place)
            }
            Err(error) => {
                if fresh {
                    self.control.kill(&sandbox.sandbox_id).await?;
                    slot.theirs = None;
                    self.slots.forget(&id);
                } else {
                    drop(slot);
                    self.rest(&id);
                }
                Err(error)
            }
        }
    }

    /// The sandbox that is there already, resumed if it was paused.
    async fn resume(&self, slot: &Slot, spec: &SandboxSpec) -> Result<Option<Sandbox>> {
        let Some(theirs) = &slot.theirs else {
            return Ok(None);
        };
        if theirs.internet != wants_internet(spec) {
            return Err(unsupported(
                "the session's sandbox was made with another network",
            ));
        }
        self.control.connect(&theirs.id, self.config.life).await
    }

    async fn make(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<Sandbox> {
        let config = &self.config;
        let internet = wants_internet(spec);
        let new = NewSandbox {
            template_id: config.template.clone(),
            timeout: Some(u32::try_from(config.life.as_secs()).unwrap_or(u32::MAX)),
            metadata: Some(names::metadata(&config.owner, id, internet)),
            allow_internet_access: Some(internet),
            // A service that dies leaves workspaces to the next, and nothing that runs.
            auto_pause: Some(!self.cannot_pause.load(Ordering::Relaxed)),
            network: config.secure.then(|| NetworkConfig {
                allow_public_traffic: Some(false),
                ..NetworkConfig::default()
            }),
            ..NewSandbox::default()
        };
        self.control.create(new, config.secure).await
    }

    async fn enter(
        self: &Arc<Self>,
        id: &SandboxId,
        sandbox: &Sandbox,
        spec: &SandboxSpec,
        fresh: bool,
    ) -> Result<E2bPlace> {
        if self.config.secure && sandbox.envd_access_token.is_none() {
            return Err(unavailable(
                "the E2B server makes sandboxes without tokens; whoever wants that sets \
                 E2B_SECURE_ACCESS=false",
            ));
        }
        let envd = Envd::new(&self.http, &self.config.servers, sandbox)?;
        let entrance = Entrance {
            config: &self.config,
            http: &self.http,
            program: &self.program,
            envd: &envd,
            sandbox,
        };
        let guest_config = GuestConfig {
            env: spec.env.clone(),
        };
        let entering = async {
            let entered = self.ways.enter(&entrance, fresh).await?;
            greet(&entered.guest, &guest_config).await?;
            Ok::<_, Error>(entered)
        };
        let Entered { guest, alone } = timeout(self.config.start_timeout, entering)
            .await
            .map_err(|_| unavailable("the sandbox did not start in time"))??;
        let told = || Told::new(self.control.clone(), sandbox.sandbox_id.clone());
        let told = alone.is_some().then(told);
        let is_alone = alone.is_some();
        let running = Running {
            control: self.control.clone(),
            envd,
            theirs: sandbox.sandbox_id.clone(),
            life: self.config.life,
            alone,
        };
        let (inner, id) = (Arc::clone(self), id.clone());
        let rest = async move {
            // What runs in it ends with a guest of ours, or with the pause alone.
            if is_alone {
                let slot = inner.slots.take(&id).await;
                inner.pause_or_tell(&id, slot).await;
            } else {
                inner.rest(&id);
            }
        };
        Ok(E2bPlace::new(guest, told, spec.clone(), running, rest))
    }

    /// A sandbox whose guest has ended is paused soon.
    fn rest(self: &Arc<Self>, id: &SandboxId) {
        let inner = Arc::clone(self);
        let named = id.clone();
        self.slots.rest(id, move |slot| async move {
            inner.pause_or_tell(&named, slot).await;
        });
    }

    async fn pause_or_tell(&self, id: &SandboxId, slot: OwnedMutexGuard<Slot>) {
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

    async fn end(&self, id: &SandboxId) -> Result<()> {
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

    async fn wait_for_earlier(&self, id: &SandboxId) -> Result<()> {
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

fn wants_internet(spec: &SandboxSpec) -> bool {
    spec.network != NetworkPolicy::Disabled
}

fn unsupported(detail: impl Into<String>) -> Error {
    Error::new(ErrorCode::Unsupported, detail)
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
                "look at E2B_API_KEY, E2B_DOMAIN and the way to the server",
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
