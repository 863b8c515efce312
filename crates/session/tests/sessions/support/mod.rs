//! A manager, and all that it stands on.

mod backend;
mod guest;
mod observer;
mod store;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use guest_client::messages::{ReadLinesRequest, WriteRequest};
use sandbox_core::{
    ContextDriver, ContextLimits, ErrorCode, InContext, ManualClock, Result, Script, SessionKey,
    TenantId,
};
use sandbox_session::{RunReport, SessionManager, SessionSettings, SessionState};
use sandbox_store::SessionStore as _;

pub use backend::{Fake, FakeBackend};
pub use guest::REFUSED;
pub use observer::Notes;
pub use sandbox_conformance::request as program;
pub use store::FakeStore;

pub const IDLE: Duration = Duration::from_secs(900);
/// No test waits for longer than this.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn key(tenant: &str, session: &str) -> SessionKey {
    SessionKey::new(tenant.parse().unwrap(), session.parse().unwrap())
}

pub fn settings() -> SessionSettings {
    SessionSettings {
        // The tests say when.
        reap_interval: Duration::from_secs(3600),
        ..SessionSettings::default()
    }
}

pub fn file(path: &str, text: &str) -> WriteRequest {
    WriteRequest {
        path: path.into(),
        data: text.as_bytes().to_vec(),
        ..Default::default()
    }
}

/// Waits for a state.
pub async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let waiting = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "waited in vain until {what}");
}

/// The end of a task that is sure to end.
pub async fn ended<T>(task: tokio::task::JoinHandle<T>) -> T {
    tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap()
}

/// A clone is the same world.
#[derive(Clone)]
pub struct World {
    pub sessions: Arc<SessionManager>,
    pub backend: Arc<FakeBackend>,
    pub store: Arc<FakeStore>,
    pub clock: ManualClock,
    pub notes: Arc<Notes>,
}

impl World {
    pub async fn new() -> Self {
        Self::with(settings()).await
    }

    pub async fn with(settings: SessionSettings) -> Self {
        let backend = Arc::new(FakeBackend::default());
        let store = Arc::new(FakeStore::new().await);
        Self::of(settings, backend, store, ManualClock::default()).await
    }

    /// The world after a restart of the service.
    pub async fn restarted(&self, settings: SessionSettings) -> Self {
        let (backend, store) = (Arc::clone(&self.backend), Arc::clone(&self.store));
        Self::of(settings, backend, store, self.clock.clone()).await
    }

    async fn of(
        settings: SessionSettings,
        backend: Arc<FakeBackend>,
        store: Arc<FakeStore>,
        clock: ManualClock,
    ) -> Self {
        let notes = Arc::new(Notes::default());
        let sessions = SessionManager::start(
            settings,
            Arc::new(Fake(Arc::clone(&backend))),
            Arc::clone(&store) as _,
            Arc::new(clock.clone()),
            Arc::clone(&notes) as _,
        )
        .await
        .unwrap();
        Self {
            sessions,
            backend,
            store,
            clock,
            notes,
        }
    }

    pub async fn run(&self, key: &SessionKey, argv: &[&str]) -> Result<RunReport> {
        self.sessions
            .run(&key.tenant, Some(&key.session), vec![], program(argv))
            .await
    }

    /// A run in a session of its own.
    pub async fn run_alone(&self, tenant: &str, argv: &[&str]) -> Result<RunReport> {
        let tenant: TenantId = tenant.parse().unwrap();
        self.sessions
            .run(&tenant, None, vec![], program(argv))
            .await
    }

    pub fn start_run(
        &self,
        key: &SessionKey,
        argv: &[&str],
    ) -> tokio::task::JoinHandle<Result<RunReport>> {
        let (world, key) = (self.clone(), key.clone());
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        tokio::spawn(async move {
            let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
            world.run(&key, &argv).await
        })
    }

    /// Runs code in the context of this name.
    pub fn start_in(
        &self,
        key: &SessionKey,
        context: &str,
    ) -> tokio::task::JoinHandle<Result<RunReport>> {
        let (world, key) = (self.clone(), key.clone());
        let mut request = program(&["python3"]);
        request.program.script = Some(Script {
            file_name: "main.py".into(),
            source: "1".into(),
            compile: Vec::new(),
        });
        request.context = Some(InContext {
            name: context.parse().unwrap(),
            language: "python".into(),
            driver: ContextDriver::Python,
            limits: ContextLimits::default(),
        });
        tokio::spawn(async move {
            world
                .sessions
                .run(&key.tenant, Some(&key.session), vec![], request)
                .await
        })
    }

    pub async fn write(&self, key: &SessionKey, path: &str, text: &str) -> Result<()> {
        let request = file(path, text);
        self.sessions
            .with_guest(key, |guest| async move { guest.write(request).await })
            .await
            .map(|_| ())
    }

    /// What is in a file; `None` if there is none.
    pub async fn read(&self, key: &SessionKey, path: &str) -> Option<String> {
        let request = ReadLinesRequest {
            path: path.into(),
            ..Default::default()
        };
        let read = self
            .sessions
            .with_guest(key, |guest| async move { guest.read_lines(request).await })
            .await;
        match read {
            Ok(read) => Some(read.content),
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::NotFound, "{error:?}");
                None
            }
        }
    }

    pub fn state(&self, key: &SessionKey) -> Option<SessionState> {
        self.sessions.get(key).map(|info| info.state)
    }

    pub async fn until_state(&self, key: &SessionKey, state: Option<SessionState>) {
        until(&format!("{key} is {state:?}"), || self.state(key) == state).await;
    }

    pub async fn until_running(&self, runs: usize) {
        let what = format!("{runs} runs are under way");
        until(&what, || Self::get(&self.backend.running) == runs).await;
    }

    /// Kills a session's sandbox, and waits until that is known.
    pub async fn kill(&self, key: &SessionKey) {
        self.backend.kill(key);
        self.until_state(key, Some(SessionState::Stopped)).await;
    }

    /// The keys of the registry.
    pub async fn rows(&self) -> Vec<String> {
        let rows = self.store.load().await.unwrap();
        rows.iter().map(|row| row.key.to_string()).collect()
    }

    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self
            .sessions
            .list()
            .iter()
            .map(|info| info.key.to_string())
            .collect();
        keys.sort();
        keys
    }

    pub fn get(counter: &AtomicUsize) -> usize {
        counter.load(Ordering::SeqCst)
    }

    pub fn creates(&self) -> usize {
        Self::get(&self.backend.creates)
    }

    /// Every sandbox that was made is gone, and each was told of once.
    pub fn assert_all_gone(&self) {
        self.backend.assert_sound();
        let destroyed: usize = self.notes.destroyed().iter().map(|(_, n)| n).sum();
        assert_eq!(destroyed, Self::get(&self.notes.created));
        assert_eq!(Self::get(&self.backend.alive), 0);
        assert_eq!(self.notes.active.load(Ordering::SeqCst), 0);
    }
}

pub fn code<T>(result: Result<T>) -> ErrorCode {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.code(),
    }
}
