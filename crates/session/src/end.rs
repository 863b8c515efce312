//! The end of a session: its sandbox, its workspace, its row.

use std::{sync::Arc, time::Duration};

use sandbox_core::{Result, SessionKey, chain};
use tracing::{error, info, warn};

use crate::{
    DestroyReason,
    deadline::{self, within},
    outcome::{Failure, Outcome, Promise, promise},
    sandbox::Sandbox,
    session::{Session, State},
    shared::Shared,
    table::Table,
};

/// How often an end is tried before it is left to the reaper.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// The sandbox of a session that is to end.
enum Last {
    None,
    Here(Arc<Sandbox>),
    /// It is being made; its end begins when that has ended.
    Coming(Outcome<Arc<Sandbox>>),
}

impl Shared {
    /// Starts to end a session and all that runs in it; `None` if there is none.
    pub fn begin_end(
        self: &Arc<Self>,
        table: &mut Table,
        key: &SessionKey,
        reason: DestroyReason,
    ) -> Option<Outcome<()>> {
        let entry = table.entries.get_mut(key)?;
        if let State::Ending { done, .. } = &entry.state {
            return Some(done.clone());
        }
        let (promise, done) = promise();
        let ending = State::Ending {
            done: done.clone(),
            occupies: true,
        };
        let last = match std::mem::replace(&mut entry.state, ending) {
            State::Starting(sandbox) => Last::Coming(sandbox),
            State::Running(sandbox) | State::Stopped(Some(sandbox)) => Last::Here(sandbox),
            State::Stopped(None) | State::Ending { .. } => {
                entry.state = State::Ending {
                    done: done.clone(),
                    occupies: false,
                };
                Last::None
            }
        };
        let session = Arc::clone(&entry.session);
        session.end(reason);
        self.observe_active(table);
        self.spawn(Arc::clone(self).end(session, last, reason, promise));
        Some(done)
    }

    async fn end(
        self: Arc<Self>,
        session: Arc<Session>,
        last: Last,
        reason: DestroyReason,
        done: Promise<()>,
    ) {
        let sandbox = match last {
            Last::None => None,
            Last::Here(sandbox) => Some(sandbox),
            Last::Coming(sandbox) => sandbox.wait().await.ok(),
        };
        if let Some(sandbox) = &sandbox {
            sandbox.give_up(reason);
        }
        // A service that stops keeps what its sessions have.
        let keep = reason == DestroyReason::Shutdown && !session.terms.ephemeral;
        let mut result = Ok(());
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE * 2_u32.pow(attempt)).await;
            }
            result = self.clear(&session, sandbox.as_ref(), keep).await;
            match &result {
                Ok(()) => break,
                Err(failed) => warn!(
                    session.tenant = %session.key().tenant, session.id = %session.key().session,
                    "failed to end a session: {}", chain(failed)
                ),
            }
        }
        self.has_ended(&session, sandbox, reason, &result, keep);
        self.room.notify_waiters();
        let began = reason != DestroyReason::Failed && !session.terms.ephemeral;
        let gone = result.is_ok() && !keep && began;
        done.keep(result.map_err(|failed| Failure::from(&failed)));
        if gone {
            self.observer.session_ended(session.key(), reason).await;
        }
    }

    fn has_ended(
        &self,
        session: &Session,
        sandbox: Option<Arc<Sandbox>>,
        reason: DestroyReason,
        result: &Result<()>,
        keep: bool,
    ) {
        let mut table = self.table();
        match result {
            Ok(()) if keep => {
                if let Some(entry) = table.entries.get_mut(session.key()) {
                    entry.state = State::Stopped(None);
                }
            }
            Ok(()) => {
                table.entries.remove(session.key());
                info!(
                    session.tenant = %session.key().tenant, session.id = %session.key().session,
                    backend = self.backend_name(), reason = reason.as_str(), "ended a session"
                );
            }
            Err(_) => {
                error!(
                    session.tenant = %session.key().tenant, session.id = %session.key().session,
                    backend = self.backend_name(), reason = reason.as_str(),
                    "a session does not end; it is tried again later"
                );
                if let Some(entry) = table.entries.get_mut(session.key()) {
                    entry.session = Arc::new(session.doomed(reason));
                    entry.state = State::Stopped(sandbox);
                }
            }
        }
    }

    /// Workspace before row: a row without a workspace is no harm, and a workspace
    /// without a row is removed at the next start.
    async fn clear(
        &self,
        session: &Session,
        sandbox: Option<&Arc<Sandbox>>,
        keep: bool,
    ) -> Result<()> {
        if let Some(sandbox) = sandbox {
            self.stop(session, sandbox).await?;
        }
        self.free_place(session.key());
        if keep {
            return Ok(());
        }
        let remove = self.backend.remove(session.sandbox_id());
        within(deadline::REMOVE, "the removal of the workspace", remove).await?;
        if !session.terms.ephemeral {
            let remove = self.store.remove(session.key());
            within(deadline::STORE, "the registry", remove).await?;
        }
        Ok(())
    }

    fn free_place(&self, key: &SessionKey) {
        if let Some(entry) = self.table().entries.get_mut(key)
            && let State::Ending { occupies, .. } = &mut entry.state
        {
            *occupies = false;
        }
        self.room.notify_waiters();
    }

    /// Stops a sandbox; told to the observer once, whoever asks.
    pub async fn stop(&self, session: &Session, sandbox: &Sandbox) -> Result<()> {
        let stopped = sandbox.stopped.get_or_try_init(|| async {
            let stop = sandbox.place.stop();
            within(deadline::STOP, "the end of the sandbox", stop).await?;
            let (reason, lifetime) = (sandbox.reason(), self.clock.now().since(sandbox.made_at));
            self.observer
                .destroyed(self.backend_name(), reason, lifetime);
            info!(
                session.tenant = %session.key().tenant, session.id = %session.key().session,
                backend = self.backend_name(), reason = reason.as_str(),
                lifetime_ms = lifetime.as_millis() as u64, "destroyed a sandbox"
            );
            Ok(())
        });
        stopped.await.map(|_| ())
    }

    /// Ends the stopped sessions that are too many.
    pub fn evict_surplus(self: &Arc<Self>) {
        let mut table = self.table();
        for key in table.surplus(&self.settings) {
            self.begin_end(&mut table, &key, DestroyReason::Evicted);
        }
    }
}
