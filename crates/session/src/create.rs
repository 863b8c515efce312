//! Making a session's sandbox, in a task of its own.

use std::{
    sync::{Arc, PoisonError},
    time::Instant,
};

use guest_client::messages::WriteRequest;
use sandbox_backend::Place;
use sandbox_core::{Error, ErrorCode, Result, chain};
use tracing::{info, warn};

use crate::{
    CreatedBy, DestroyReason,
    deadline::{self, within},
    outcome::{Failure, Promise},
    pool::Pooled,
    sandbox::Sandbox,
    session::{Session, State},
    shared::Shared,
};

/// A sandbox that is wanted.
pub(crate) struct Creation {
    pub session: Arc<Session>,
    /// The one before, if something of it may still run.
    pub remains: Option<Arc<Sandbox>>,
    /// The session is new, not only its sandbox.
    pub fresh: bool,
    /// One that was started ahead.
    pub warm: Option<Pooled>,
    /// One that was started ahead and gives its place to this one.
    pub displaced: Option<Pooled>,
    /// Of a new session, written before it is anybody's.
    pub files: Vec<WriteRequest>,
    /// Who asked for it, where it is not its first call.
    pub by: Option<CreatedBy>,
    pub promise: Promise<Arc<Sandbox>>,
}

/// Why there is no sandbox, and what is left of the attempt.
struct Failed {
    error: Error,
    remains: Option<Arc<Sandbox>>,
}

/// What a request asked for in vain is none of the operator's.
fn is_trouble(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::Internal
            | ErrorCode::BackendUnavailable
            | ErrorCode::Timeout
            | ErrorCode::SandboxLost
    )
}

impl Shared {
    pub async fn create(self: Arc<Self>, creation: Creation) {
        let Creation {
            session,
            remains,
            fresh,
            warm,
            displaced,
            files,
            by,
            promise,
        } = creation;
        let began = Instant::now();
        if let Some(pooled) = displaced {
            self.discard(pooled).await;
        }
        let made = self.make(&session, remains, fresh, warm, files, began);
        match made.await {
            Ok(sandbox) => {
                self.has_started(&session, &sandbox);
                let key = session.key().clone();
                let tell = fresh && !session.terms.ephemeral;
                self.spawn(Arc::clone(&self).watch(session, Arc::clone(&sandbox)));
                promise.keep(Ok(sandbox));
                if tell {
                    self.observer.session_began(&key, by.as_ref()).await;
                }
            }
            Err(Failed { error, remains }) => {
                if is_trouble(&error) {
                    warn!(
                        session.tenant = %session.key().tenant, session.id = %session.key().session,
                        backend = self.backend_name(),
                        "failed to create a sandbox: {}", chain(&error)
                    );
                }
                let mut table = self.table();
                // First, so that its callers learn this and not that it is ending.
                promise.keep(Err(Failure::from(&error)));
                if let Some(entry) = table.entries.get_mut(session.key())
                    && matches!(entry.state, State::Starting(_))
                {
                    entry.state = State::Stopped(remains);
                    if fresh {
                        let reason = DestroyReason::Failed;
                        self.begin_end(&mut table, session.key(), reason);
                    }
                }
                drop(table);
                self.room.notify_waiters();
            }
        }
    }

    fn has_started(&self, session: &Session, sandbox: &Arc<Sandbox>) {
        let mut table = self.table();
        // Otherwise it is ending, and that task waits for the promise.
        if let Some(entry) = table.entries.get_mut(session.key())
            && matches!(entry.state, State::Starting(_))
        {
            entry.state = State::Running(Arc::clone(sandbox));
            // The time that it took does not count as idle.
            session.touch(self.clock.now());
        }
        self.observe_active(&table);
    }

    async fn make(
        &self,
        session: &Session,
        remains: Option<Arc<Sandbox>>,
        fresh: bool,
        warm: Option<Pooled>,
        files: Vec<WriteRequest>,
        began: Instant,
    ) -> Result<Arc<Sandbox>, Failed> {
        // Two sandboxes never share a workspace.
        if let Some(before) = remains
            && let Err(error) = self.stop(session, &before).await
        {
            let remains = Some(before);
            return Err(Failed { error, remains });
        }
        let bare = |error| Failed {
            error,
            remains: None,
        };
        if fresh {
            self.remove_orphan(session).await.map_err(bare)?;
        }
        let (place, registered) = tokio::join!(
            self.place(session, warm),
            // With files, a session is one only when they are there.
            self.register(session, fresh && files.is_empty()),
        );
        let sandbox = Arc::new(Sandbox::new(place.map_err(bare)?, self.clock.now()));
        let took = began.elapsed();
        self.observer.created(self.backend_name(), took);
        info!(
            session.tenant = %session.key().tenant, session.id = %session.key().session,
            backend = self.backend_name(), took_ms = took.as_millis() as u64,
            "created a sandbox"
        );
        let complete = match registered {
            Ok(()) if !files.is_empty() => self.fill(session, &sandbox, files).await,
            registered => registered,
        };
        if let Err(error) = complete {
            // Unknown to the registry, its workspace would be lost at the next start.
            sandbox.give_up(DestroyReason::Failed);
            let remains = match self.stop(session, &sandbox).await {
                Ok(()) => None,
                Err(_) => Some(sandbox),
            };
            return Err(Failed { error, remains });
        }
        Ok(sandbox)
    }

    /// A sandbox for the session: the one that was started ahead, if it can be used.
    async fn place(&self, session: &Session, warm: Option<Pooled>) -> Result<Arc<dyn Place>> {
        let spec = &session.terms.spec;
        if let Some(pooled) = warm {
            let adapt = pooled.place.adapt(spec);
            match within(deadline::ADAPT, "the change of a sandbox", adapt).await {
                Ok(()) => return Ok(pooled.place),
                Err(error) => {
                    warn!("failed to use a sandbox of the pool: {}", chain(&error));
                    let stop = pooled.place.stop();
                    within(deadline::STOP, "the end of the sandbox", stop).await?;
                }
            }
        }
        let create = self.backend.create(session.sandbox_id(), spec);
        within(deadline::CREATE, "the start of the sandbox", create).await
    }

    /// Writes the files of a new session, and only then registers it.
    async fn fill(
        &self,
        session: &Session,
        sandbox: &Sandbox,
        files: Vec<WriteRequest>,
    ) -> Result<()> {
        let guest = sandbox.place.guest();
        for (n, file) in files.into_iter().enumerate() {
            let write = guest.write(file);
            within(deadline::FILE, "the writing of the files", write)
                .await
                .map_err(|error| {
                    let detail = format!("`files[{n}]`: {}", error.detail());
                    Error::new(error.code(), detail).with_source(error)
                })?;
        }
        self.register(session, true).await
    }

    async fn register(&self, session: &Session, fresh: bool) -> Result<()> {
        if !fresh || session.terms.ephemeral {
            return Ok(());
        }
        self.write_row(session).await
    }

    /// A new session never finds what an older one of its name has left.
    async fn remove_orphan(&self, session: &Session) -> Result<()> {
        let id = session.sandbox_id();
        let is_orphan = |shared: &Self| {
            let orphans = shared.orphans.lock();
            orphans.unwrap_or_else(PoisonError::into_inner).contains(id)
        };
        if !is_orphan(self) {
            return Ok(());
        }
        within(deadline::REMOVE, "the removal", self.backend.remove(id)).await?;
        let orphans = self.orphans.lock();
        orphans.unwrap_or_else(PoisonError::into_inner).remove(id);
        Ok(())
    }

    /// Notices when a sandbox ends by itself, and sees to it that nothing is left.
    async fn watch(self: Arc<Self>, session: Arc<Session>, sandbox: Arc<Sandbox>) {
        sandbox.until_over().await;
        self.mark_lost(&session, &sandbox);
        if self.stop(&session, &sandbox).await.is_ok() {
            let mut table = self.table();
            if let Some(entry) = table.entries.get_mut(session.key())
                && let State::Stopped(remains) = &mut entry.state
                && remains.as_ref().is_some_and(|it| Arc::ptr_eq(it, &sandbox))
            {
                *remains = None;
            }
        }
        self.evict_surplus();
    }

    /// A sandbox that cannot be used is stopped, and the next call gets another.
    pub fn mark_lost(&self, session: &Session, sandbox: &Arc<Sandbox>) {
        self.let_go(session, sandbox, DestroyReason::Lost);
    }

    /// Nobody gets this sandbox again, and its session goes on without.
    pub fn let_go(&self, session: &Session, sandbox: &Arc<Sandbox>, reason: DestroyReason) {
        let mut table = self.table();
        if let Some(entry) = table.entries.get_mut(session.key())
            && let State::Running(running) = &entry.state
            && Arc::ptr_eq(running, sandbox)
        {
            // This wakes its watch, which stops it.
            sandbox.give_up(reason);
            entry.state = State::Stopped(Some(Arc::clone(sandbox)));
            self.observe_active(&table);
        }
        drop(table);
        self.room.notify_waiters();
    }
}
