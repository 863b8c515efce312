//! Sessions that are kept as they are for a while, and the change of their ends.

use std::{sync::Arc, time::Duration};

use sandbox_core::{Capability, Error, ErrorCode, OnEnd, Result, SessionKey, Timestamp, chain};
use sandbox_store::SessionRecord;
use tokio::sync::{OwnedMutexGuard, oneshot};
use tracing::{info, warn};

use crate::{
    DestroyReason, SessionManager,
    acquire::no_such_session,
    deadline::{self, within},
    new::Wanted,
    sandbox::Sandbox,
    session::{Session, State, Times, paused},
    shared::Shared,
    table::Table,
};

impl SessionManager {
    /// Sets when a session ends however much it is used.
    pub async fn set_end(&self, key: &SessionKey, ends: Timestamp) -> Result<()> {
        let session = {
            let table = self.shared.table();
            let session = known(&table, key)?;
            if session.is_paused() {
                return Err(paused());
            }
            session.times().ends = Some(ends);
            session
        };
        self.shared.write_row(&session).await
    }

    /// Ends the calls in a session and keeps it until it is resumed: with its processes
    /// where they are wanted and the backend can ([`Capability::Freeze`]), else with its
    /// files alone. `session_paused` when it is paused already.
    pub async fn pause(&self, key: &SessionKey, keep_memory: bool) -> Result<()> {
        let session = known(&self.shared.table(), key)?;
        self.shared.pause(session, keep_memory).await
    }

    /// Lets a paused session go on, with its sandbox ready; false if it was not paused.
    /// It ends `ttl` from now; without one it has as much time left as it had.
    pub async fn resume(&self, key: &SessionKey, ttl: Option<Duration>) -> Result<bool> {
        let session = known(&self.shared.table(), key)?;
        self.shared.resume(session, ttl).await
    }
}

fn known(table: &Table, key: &SessionKey) -> Result<Arc<Session>> {
    match table.entries.get(key) {
        Some(entry) if !matches!(entry.state, State::Ending { .. }) => {
            Ok(Arc::clone(&entry.session))
        }
        _ => Err(no_such_session()),
    }
}

impl Shared {
    pub async fn write_row(&self, session: &Session) -> Result<()> {
        let _turn = session.writing.lock().await;
        let terms = &session.terms;
        let times = session.times().clone();
        let record = SessionRecord {
            key: terms.key.clone(),
            sandbox_id: terms.sandbox_id.clone(),
            backend: self.backend_name().to_owned(),
            spec: terms.spec.clone(),
            options: terms.options.clone(),
            created_at: terms.created_at,
            last_used_at: session.last_used(),
            idle_timeout: terms.idle_timeout,
            expires_at: times.ends,
            paused_at: times.paused_at,
        };
        within(deadline::STORE, "the registry", self.store.put(&record)).await
    }

    async fn pause(self: &Arc<Self>, session: Arc<Session>, keep_memory: bool) -> Result<()> {
        let (shared, turn) = (Arc::clone(self), turn(&session).await?);
        self.in_turn(turn, async move {
            shared.pause_now(&session, keep_memory).await
        })
        .await
    }

    /// In a task of its own: a caller who goes away leaves nothing half paused.
    async fn in_turn<T: Send + 'static>(
        &self,
        turn: OwnedMutexGuard<()>,
        change: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (tell, told) = oneshot::channel();
        self.spawn(async move {
            let result = change.await;
            drop(turn);
            let _ = tell.send(result);
        });
        told.await.map_err(Error::internal)?
    }

    async fn pause_now(self: &Arc<Self>, session: &Arc<Session>, keep_memory: bool) -> Result<()> {
        let capabilities = self.backend.capabilities();
        let with_memory = keep_memory && capabilities.contains(&Capability::Freeze);
        if !with_memory && !capabilities.contains(&Capability::PersistentWorkspace) {
            return Err(Error::new(
                ErrorCode::Unsupported,
                format!(
                    "the backend `{}` does not keep what a sandbox has",
                    self.backend_name()
                ),
            ));
        }
        let sandbox = self.begin_pause(session).await?;
        // First, so that a service that is killed now finds it paused.
        if let Err(error) = self.write_row(session).await {
            let ends = session.times().ends;
            let _table = self.table();
            session.go_on(ends);
            return Err(error);
        }
        let Some(sandbox) = sandbox else {
            return Ok(());
        };
        if with_memory && freeze(session, &sandbox).await {
            self.has_paused(session, "with its processes");
            return Ok(());
        }
        self.let_go(session, &sandbox, DestroyReason::Paused);
        self.stop(session, &sandbox).await?;
        self.has_paused(session, "with its files");
        Ok(())
    }

    fn has_paused(&self, session: &Session, kept: &str) {
        info!(
            session.tenant = %session.key().tenant, session.id = %session.key().session,
            backend = self.backend_name(), "paused a session {kept}"
        );
    }

    /// From now on no call reaches it. Its sandbox, if it runs.
    async fn begin_pause(&self, session: &Arc<Session>) -> Result<Option<Arc<Sandbox>>> {
        loop {
            let starting = {
                let table = self.table();
                let entry = table
                    .entries
                    .get(session.key())
                    .ok_or_else(no_such_session)?;
                if !Arc::ptr_eq(&entry.session, session) {
                    return Err(no_such_session());
                }
                if session.is_paused() {
                    return Err(paused());
                }
                if !table.may_pause(&session.key().tenant, &self.settings) {
                    return Err(Error::new(
                        ErrorCode::SessionLimitReached,
                        "there are as many paused sessions as there may be",
                    ));
                }
                let now = self.clock.now();
                match &entry.state {
                    State::Ending { .. } => return Err(no_such_session()),
                    State::Starting(sandbox) => sandbox.clone(),
                    State::Running(sandbox) if sandbox.is_alive() => {
                        session.pause(now);
                        return Ok(Some(Arc::clone(sandbox)));
                    }
                    State::Running(_) | State::Stopped(_) => {
                        session.pause(now);
                        return Ok(None);
                    }
                }
            };
            starting.wait().await?;
        }
    }

    /// A session whose time is over is kept, or ended where it may not or cannot be.
    pub async fn pause_at_end(self: Arc<Self>, key: SessionKey) {
        let Ok(session) = known(&self.table(), &key) else {
            return;
        };
        if !session.is_to_pause(self.clock.now()) {
            return;
        }
        let keep_memory = session.terms.options.on_end == OnEnd::Pause;
        match self.pause(session, keep_memory).await {
            Ok(()) => {}
            Err(error) if error.code() == ErrorCode::SessionPaused => {}
            Err(error) => {
                warn!(
                    session.tenant = %key.tenant, session.id = %key.session,
                    "failed to pause a session whose time is over: {}", chain(&error)
                );
                // Anything else may be mended until the reaper looks again.
                if matches!(
                    error.code(),
                    ErrorCode::SessionLimitReached | ErrorCode::Unsupported
                ) {
                    self.begin_end(&mut self.table(), &key, DestroyReason::Ttl);
                }
            }
        }
    }

    async fn resume(
        self: &Arc<Self>,
        session: Arc<Session>,
        ttl: Option<Duration>,
    ) -> Result<bool> {
        let (shared, turn) = (Arc::clone(self), turn(&session).await?);
        self.in_turn(turn, async move { shared.resume_now(&session, ttl).await })
            .await
    }

    async fn resume_now(
        self: &Arc<Self>,
        session: &Arc<Session>,
        ttl: Option<Duration>,
    ) -> Result<bool> {
        let frozen = {
            let table = self.table();
            let entry = table
                .entries
                .get(session.key())
                .ok_or_else(no_such_session)?;
            if !session.is_paused() {
                return Ok(false);
            }
            match &entry.state {
                State::Running(sandbox) => Some(Arc::clone(sandbox)),
                _ => None,
            }
        };
        if let Some(sandbox) = frozen {
            let thawing = sandbox.place.guest().thaw();
            if let Err(error) = within(deadline::FREEZE, "the end of the pause", thawing).await {
                warn!(
                    session.tenant = %session.key().tenant, session.id = %session.key().session,
                    "failed to thaw a sandbox, its files are kept: {}", chain(&error)
                );
                self.mark_lost(session, &sandbox);
            }
        }
        let before = session.times().clone();
        {
            // Under the lock, as every change that a call looks at.
            let _table = self.table();
            let now = self.clock.now();
            let ends = match (ttl, before.ends, before.paused_at) {
                (Some(ttl), ..) => Some(now.plus(ttl)),
                (None, Some(ends), Some(since)) => Some(ends.plus(now.since(since))),
                (None, ends, _) => ends,
            };
            session.go_on(ends);
            session.touch(now);
        }
        let going_on = async {
            self.write_row(session).await?;
            self.acquire(session.key(), Wanted::Existing).await
        };
        let Err(error) = going_on.await else {
            return Ok(true);
        };
        // It could end now though nobody has had it: it stays as it was.
        self.stay_paused(session, before).await;
        Err(error)
    }

    async fn stay_paused(&self, session: &Session, before: Times) {
        let sandbox = {
            let table = self.table();
            if session.ended().is_some() {
                return;
            }
            session.pause_as(before);
            match table.entries.get(session.key()).map(|entry| &entry.state) {
                Some(State::Running(sandbox)) => Some(Arc::clone(sandbox)),
                _ => None,
            }
        };
        if let Some(sandbox) = sandbox {
            freeze(session, &sandbox).await;
        }
        if let Err(error) = self.write_row(session).await {
            warn!(
                session.tenant = %session.key().tenant, session.id = %session.key().session,
                "failed to write that a session stays paused: {}", chain(&error)
            );
        }
    }
}

/// False where it cannot be: that is in the log.
async fn freeze(session: &Session, sandbox: &Sandbox) -> bool {
    let freezing = sandbox.place.guest().freeze();
    let frozen = within(deadline::FREEZE, "the pause of the sandbox", freezing).await;
    if let Err(error) = &frozen {
        warn!(
            session.tenant = %session.key().tenant, session.id = %session.key().session,
            "failed to freeze a sandbox, its files are kept: {}", chain(error)
        );
    }
    frozen.is_ok()
}

/// One pause or its end at a time.
async fn turn(session: &Arc<Session>) -> Result<OwnedMutexGuard<()>> {
    let turn = Arc::clone(&session.pausing).lock_owned();
    tokio::select! {
        biased;
        error = session.until_ended() => Err(error),
        turn = tokio::time::timeout(deadline::LEASE, turn) => turn.map_err(|_| {
            Error::new(ErrorCode::Timeout, "the session was not ready in time")
        }),
    }
}
