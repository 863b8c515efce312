//! The door to all sessions.

use std::{sync::Arc, time::Duration};

use guest_client::GuestClient;
use sandbox_backend::{Backend, Usage};
use sandbox_core::{Clock, Result, SessionKey, Timestamp};
use sandbox_store::SessionStore;

use crate::{
    DestroyReason, Lease, NewSession, Observer, Paused, SessionInfo, SessionSettings, SessionState,
    entries::Entry,
    lease::{InUse, Made},
    new::Wanted,
    sandbox::Sandbox,
    session::{Session, State, Times},
    shared::Shared,
};

/// Every session of one backend.
pub struct SessionManager {
    pub(crate) shared: Arc<Shared>,
}

impl SessionManager {
    /// Takes up the sessions that are kept, removes workspaces that belong to
    /// none, and starts what is done in the background.
    pub async fn start(
        settings: SessionSettings,
        backend: Arc<dyn Backend>,
        store: Arc<dyn SessionStore>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
    ) -> Result<Arc<Self>> {
        let shared = Arc::new(Shared::new(settings, backend, store, clock, observer));
        shared.restore().await?;
        shared.start_background();
        Ok(Arc::new(Self { shared }))
    }

    /// The backend that makes its sandboxes.
    pub fn backend_name(&self) -> &'static str {
        self.shared.backend_name()
    }

    /// A living sandbox for the key, for calls and streams that are the caller's own.
    pub async fn lease(&self, key: &SessionKey) -> Result<Lease> {
        self.shared.acquire(key, Wanted::AsUsual).await
    }

    /// The same of a session that is there; else it is `not_found`.
    pub async fn lease_existing(&self, key: &SessionKey) -> Result<Lease> {
        self.shared.acquire(key, Wanted::Existing).await
    }

    /// A session as it was asked for, and whether it is new. One that is there
    /// already must have been asked for in the same way.
    pub async fn create(&self, key: &SessionKey, new: &NewSession) -> Result<bool> {
        let lease = self.shared.acquire(key, Wanted::AsAsked(new)).await?;
        Ok(lease.made.fresh)
    }

    /// How long its runs may take that do not say so, where that was chosen.
    pub fn run_timeout(&self, key: &SessionKey) -> Option<Duration> {
        let table = self.shared.table();
        table.entries.get(key)?.session.terms.options.run_timeout
    }

    /// Whether there is such a session, and it is not ending.
    pub fn knows(&self, key: &SessionKey) -> bool {
        self.shared
            .table()
            .entries
            .get(key)
            .is_some_and(|entry| !matches!(entry.state, State::Ending { .. }))
    }

    /// A sandbox that runs now, if there is one; none is started. The session counts as used.
    pub fn lease_running(&self, key: &SessionKey) -> Option<Lease> {
        let table = self.shared.table();
        let entry = table.entries.get(key)?;
        let State::Running(sandbox) = &entry.state else {
            return None;
        };
        if entry.session.is_paused() {
            return None;
        }
        let in_use = InUse::new(Arc::clone(&self.shared), Arc::clone(&entry.session));
        sandbox
            .is_alive()
            .then(|| Lease::new(in_use, Arc::clone(sandbox), Made::default()))
    }

    /// The guest of a sandbox that runs now, for a look that is no use of it.
    pub fn running_guest(&self, key: &SessionKey) -> Option<GuestClient> {
        let table = self.shared.table();
        match &table.entries.get(key)?.state {
            State::Running(sandbox) if sandbox.is_alive() => Some(sandbox.place.guest().clone()),
            _ => None,
        }
    }

    /// One call to the guest of a session; it does not queue with runs.
    pub async fn with_guest<T, F, Fut>(&self, key: &SessionKey, call: F) -> Result<T>
    where
        F: FnOnce(GuestClient) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let lease = self.lease(key).await?;
        lease.call(call(lease.guest().clone())).await
    }

    pub fn list(&self) -> Vec<SessionInfo> {
        let entries: Vec<_> = self.shared.table().entries.values().map(view).collect();
        entries.into_iter().map(|view| self.info(view)).collect()
    }

    pub fn get(&self, key: &SessionKey) -> Option<SessionInfo> {
        let view = self.shared.table().entries.get(key).map(view)?;
        Some(self.info(view))
    }

    /// Ends what runs in a session and removes all of it; false if there was none,
    /// or it was ending already. Either way it is gone afterwards.
    pub async fn delete(&self, key: &SessionKey) -> Result<bool> {
        let (done, ours) = {
            let mut table = self.shared.table();
            let Some(entry) = table.entries.get(key) else {
                return Ok(false);
            };
            let ours = !matches!(entry.state, State::Ending { .. });
            let reason = DestroyReason::Deleted;
            match self.shared.begin_end(&mut table, key, reason) {
                Some(done) => (done, ours),
                None => return Ok(false),
            }
        };
        done.wait().await?;
        Ok(ours)
    }

    /// Ends every session whose time is up, and waits for their end.
    pub async fn reap(&self) {
        self.shared.reap().await;
    }

    /// Refuses new work, lets runs go on for `grace`, then ends every sandbox.
    /// Workspaces stay, and their sessions go on at the next start.
    pub async fn shutdown(&self, grace: Duration) {
        self.shared.shutdown(grace).await;
    }

    /// Asks a sandbox what it uses; not under the lock.
    pub(crate) fn info(&self, view: View) -> SessionInfo {
        let now: Timestamp = self.shared.clock.now();
        let session = view.session;
        SessionInfo {
            key: session.key().clone(),
            state: view.state,
            backend: self.shared.backend_name(),
            created: session.terms.created_at,
            last_used: session.last_used(),
            expires: (view.state != SessionState::Ending).then(|| session.expires(now)),
            spec: session.terms.spec.clone(),
            options: session.terms.options.clone(),
            idle_timeout: session.terms.idle_timeout,
            ends: view.times.ends,
            paused: view.times.paused_at.map(|since| Paused {
                since,
                with_memory: view.sandbox.is_some(),
            }),
            active_runs: session.active_runs(),
            queued_runs: session.queued.load(std::sync::atomic::Ordering::SeqCst),
            usage: view
                .sandbox
                .map_or_else(Usage::default, |sandbox| sandbox.place.usage()),
        }
    }
}

/// The safety net for a manager that nobody has shut down.
impl Drop for SessionManager {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

pub(crate) struct View {
    session: Arc<Session>,
    state: SessionState,
    times: Times,
    sandbox: Option<Arc<Sandbox>>,
}

pub(crate) fn view(entry: &Entry) -> View {
    let (state, sandbox) = match &entry.state {
        State::Starting(_) => (SessionState::Starting, None),
        State::Running(sandbox) if sandbox.is_alive() => {
            (SessionState::Running, Some(Arc::clone(sandbox)))
        }
        State::Running(_) | State::Stopped(_) => (SessionState::Stopped, None),
        State::Ending { .. } => (SessionState::Ending, None),
    };
    let times = entry.session.times().clone();
    let state = match state {
        SessionState::Running | SessionState::Stopped if times.paused_at.is_some() => {
            SessionState::Paused
        }
        state => state,
    };
    View {
        times,
        session: Arc::clone(&entry.session),
        state,
        sandbox,
    }
}
