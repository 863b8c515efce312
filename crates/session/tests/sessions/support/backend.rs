//! A backend whose sandboxes are tasks of the test. It notes what no caller may do.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use futures::{FutureExt as _, future::BoxFuture};
use guest_client::GuestClient;
use sandbox_backend::{Backend, Found, Place, Readiness, Usage};
use sandbox_core::{
    Capabilities, Capability, Enforcement, Error, ErrorCode, Limits, NetworkPolicy, Result,
    SandboxId, SandboxSpec, SessionKey,
};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::guest;

type Files = BTreeMap<String, Vec<u8>>;

/// Opened by default; `close` holds whoever passes until `open`.
pub struct Gate(watch::Sender<bool>);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(true))
    }
}

impl Gate {
    pub fn close(&self) {
        self.0.send_replace(false);
    }

    pub fn open(&self) {
        self.0.send_replace(true);
    }

    async fn pass(&self) {
        let mut open = self.0.subscribe();
        open.wait_for(|open| *open).await.unwrap();
    }
}

pub struct FakeBackend {
    pub creates: AtomicUsize,
    pub stops: AtomicUsize,
    pub removes: AtomicUsize,
    /// Sandboxes that live, and the most there ever were.
    pub alive: AtomicUsize,
    pub most_alive: AtomicUsize,
    /// How many of the next calls fail.
    pub failing_creates: AtomicUsize,
    pub failing_adapts: AtomicUsize,
    pub failing_stops: AtomicUsize,
    pub failing_removes: AtomicUsize,
    pub creating: Gate,
    pub removing: Gate,
    pub forgets_network: AtomicBool,
    /// Runs under way in all sandboxes.
    pub running: AtomicUsize,
    /// Each permit lets one `waits` end.
    pub gate: Semaphore,
    runs: Mutex<Vec<String>>,
    workspaces: Mutex<HashMap<SandboxId, Files>>,
    sandboxes: Mutex<HashMap<SandboxId, Arc<Inside>>>,
    violations: Mutex<Vec<String>>,
    adapted: Mutex<Option<Limits>>,
    /// Sandboxes that run since before the service.
    pub survivors: Mutex<BTreeSet<SandboxId>>,
}

impl Default for FakeBackend {
    fn default() -> Self {
        Self {
            creates: AtomicUsize::default(),
            stops: AtomicUsize::default(),
            removes: AtomicUsize::default(),
            alive: AtomicUsize::default(),
            most_alive: AtomicUsize::default(),
            failing_creates: AtomicUsize::default(),
            failing_adapts: AtomicUsize::default(),
            failing_stops: AtomicUsize::default(),
            failing_removes: AtomicUsize::default(),
            creating: Gate::default(),
            removing: Gate::default(),
            forgets_network: AtomicBool::default(),
            running: AtomicUsize::default(),
            gate: Semaphore::new(0),
            runs: Mutex::default(),
            workspaces: Mutex::default(),
            sandboxes: Mutex::default(),
            violations: Mutex::default(),
            adapted: Mutex::default(),
            survivors: Mutex::default(),
        }
    }
}

/// What one sandbox is made of.
pub struct Inside {
    pub fake: Arc<FakeBackend>,
    pub oom_kills: AtomicU64,
    pub ended: CancellationToken,
    id: SandboxId,
}

impl Inside {
    pub fn read(&self, path: &str) -> Option<String> {
        let workspaces = self.fake.workspaces.lock().unwrap();
        let bytes = workspaces.get(&self.id)?.get(path)?.clone();
        Some(String::from_utf8(bytes).unwrap())
    }

    pub fn write(&self, path: &str, data: Vec<u8>) {
        let mut workspaces = self.fake.workspaces.lock().unwrap();
        let files = workspaces.get_mut(&self.id).unwrap();
        files.insert(path.into(), data);
    }
}

/// One of the next calls that are to fail.
fn fails(left: &AtomicUsize) -> bool {
    let one_less = |left: usize| left.checked_sub(1);
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
        .is_ok()
}

impl FakeBackend {
    /// Ends a sandbox as the kernel would.
    pub fn kill(&self, key: &SessionKey) {
        let sandboxes = self.sandboxes.lock().unwrap();
        sandboxes[&key.sandbox_id()].ended.cancel();
    }

    pub fn kill_all(&self) {
        for sandbox in self.sandboxes.lock().unwrap().values() {
            sandbox.ended.cancel();
        }
    }

    /// The limits that a sandbox was last given after it was made.
    pub fn last_adapted(&self) -> Option<Limits> {
        self.adapted.lock().unwrap().clone()
    }

    pub fn has_workspace(&self, key: &SessionKey) -> bool {
        let workspaces = self.workspaces.lock().unwrap();
        workspaces.contains_key(&key.sandbox_id())
    }

    pub fn workspaces(&self) -> usize {
        self.workspaces.lock().unwrap().len()
    }

    pub fn leave_workspace(&self, key: &SessionKey, path: &str) {
        let files = Files::from([(path.to_owned(), b"left".to_vec())]);
        let mut workspaces = self.workspaces.lock().unwrap();
        workspaces.insert(key.sandbox_id(), files);
    }

    pub fn note_run(&self, name: Option<String>) {
        self.runs.lock().unwrap().extend(name);
    }

    /// The first argument of each run, in the order of their start.
    pub fn runs(&self) -> Vec<String> {
        self.runs.lock().unwrap().clone()
    }

    pub fn assert_sound(&self) {
        assert_eq!(*self.violations.lock().unwrap(), Vec::<String>::new());
    }

    fn violation(&self, what: String) -> Error {
        self.violations.lock().unwrap().push(what.clone());
        Error::internal(what)
    }

    fn make(self: &Arc<Self>, id: &SandboxId) -> Result<Arc<Inside>> {
        let mut workspaces = self.workspaces.lock().unwrap();
        workspaces.entry(id.clone()).or_default();
        if fails(&self.failing_creates) {
            return Err(Error::new(ErrorCode::BackendUnavailable, "not today"));
        }
        let inside = Arc::new(Inside {
            fake: Arc::clone(self),
            oom_kills: AtomicU64::new(0),
            ended: CancellationToken::new(),
            id: id.clone(),
        });
        let mut sandboxes = self.sandboxes.lock().unwrap();
        sandboxes.insert(id.clone(), Arc::clone(&inside));
        let alive = self.alive.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_alive.fetch_max(alive, Ordering::SeqCst);
        Ok(inside)
    }

    fn runs_now(&self, id: &SandboxId) -> bool {
        self.sandboxes.lock().unwrap().contains_key(id)
    }
}

/// The backend as the manager has it.
#[derive(Clone)]
pub struct Fake(pub Arc<FakeBackend>);

#[async_trait]
impl Backend for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn capabilities(&self) -> Capabilities {
        let mut all = Capabilities::from([
            Capability::Exec,
            Capability::Files,
            Capability::Network,
            Capability::PersistentWorkspace,
        ]);
        if self.0.forgets_network.load(Ordering::SeqCst) {
            all.remove(&Capability::Network);
        }
        all
    }

    fn enforcement(&self) -> Enforcement {
        Enforcement::from([("memory", "good manners")])
    }

    async fn check(&self) -> Readiness {
        Readiness::default()
    }

    async fn create(&self, id: &SandboxId, _: &SandboxSpec) -> Result<Arc<dyn Place>> {
        let fake = &self.0;
        fake.creates.fetch_add(1, Ordering::SeqCst);
        if fake.runs_now(id) {
            return Err(fake.violation(format!("`{id}` was created while it ran")));
        }
        fake.creating.pass().await;
        let inside = fake.make(id)?;
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (told, gone) = watch::channel(false);
        tokio::spawn(live(theirs, Arc::clone(&inside), told));
        let guest = GuestClient::connect(ours).await?;
        Ok(Arc::new(FakePlace {
            guest,
            inside,
            gone,
        }))
    }

    async fn list(&self) -> Result<Vec<Found>> {
        let survivors = self.0.survivors.lock().unwrap();
        let workspaces = self.0.workspaces.lock().unwrap();
        let ids = workspaces.keys().cloned();
        Ok(ids
            .map(|id| Found {
                running: survivors.contains(&id),
                id,
            })
            .collect())
    }

    async fn end(&self, id: &SandboxId) -> Result<()> {
        self.0.survivors.lock().unwrap().remove(id);
        Ok(())
    }

    async fn close(&self) {}

    async fn remove(&self, id: &SandboxId) -> Result<()> {
        let fake = &self.0;
        fake.removes.fetch_add(1, Ordering::SeqCst);
        if fake.runs_now(id) {
            return Err(fake.violation(format!("`{id}` was removed while it ran")));
        }
        fake.removing.pass().await;
        if fails(&fake.failing_removes) {
            return Err(Error::internal("the disk is stubborn"));
        }
        fake.workspaces.lock().unwrap().remove(id);
        Ok(())
    }
}

async fn live(io: tokio::io::DuplexStream, inside: Arc<Inside>, told: watch::Sender<bool>) {
    let ended = inside.ended.clone();
    tokio::select! {
        () = guest::serve(io, Arc::clone(&inside)) => {}
        () = ended.cancelled() => {}
    }
    inside.fake.sandboxes.lock().unwrap().remove(&inside.id);
    inside.fake.alive.fetch_sub(1, Ordering::SeqCst);
    told.send_replace(true);
}

struct FakePlace {
    guest: GuestClient,
    inside: Arc<Inside>,
    gone: watch::Receiver<bool>,
}

#[async_trait]
impl Place for FakePlace {
    fn guest(&self) -> &GuestClient {
        &self.guest
    }

    fn oom_kills(&self) -> Option<u64> {
        Some(self.inside.oom_kills.load(Ordering::SeqCst))
    }

    fn usage(&self) -> Usage {
        Usage {
            memory_bytes: Some(4096),
            ..Usage::default()
        }
    }

    fn suits(&self, spec: &SandboxSpec) -> bool {
        spec.network == NetworkPolicy::Disabled
    }

    async fn adapt(&self, spec: &SandboxSpec) -> Result<()> {
        if fails(&self.inside.fake.failing_adapts) {
            return Err(Error::internal("it stays what it is"));
        }
        *self.inside.fake.adapted.lock().unwrap() = Some(spec.limits.clone());
        Ok(())
    }

    async fn stop(&self) -> Result<()> {
        let fake = &self.inside.fake;
        fake.stops.fetch_add(1, Ordering::SeqCst);
        if fails(&fake.failing_stops) {
            return Err(Error::internal("it clings to life"));
        }
        self.inside.ended.cancel();
        self.gone().await;
        Ok(())
    }

    fn gone(&self) -> BoxFuture<'static, ()> {
        let mut gone = self.gone.clone();
        async move {
            let _ = gone.wait_for(|gone| *gone).await;
        }
        .boxed()
    }
}
