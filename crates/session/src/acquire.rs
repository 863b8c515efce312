//! From a key to a sandbox that lives, made exactly once.

use std::sync::Arc;

use sandbox_core::{Error, ErrorCode, Result, SandboxId, SessionKey, Timestamp};
use tracing::{Instrument as _, trace_span};

use crate::{
    DestroyReason, Lease,
    create::Creation,
    deadline,
    entries::Entry,
    lease::{InUse, Made},
    new::Wanted,
    observer::shutting_down,
    outcome::{Outcome, promise},
    sandbox::Sandbox,
    session::{Session, State, Terms, Times, paused},
    shared::Shared,
    table::{Admission, Table},
};

/// What a call finds when it looks at the table.
pub(crate) enum Found {
    Running(InUse, Arc<Sandbox>),
    Starting {
        in_use: InUse,
        sandbox: Outcome<Arc<Sandbox>>,
        /// This call made it start.
        created: bool,
        /// This call made the session.
        fresh: bool,
    },
    /// What was there must be gone first.
    Ending(Outcome<()>),
    NoRoom,
}

impl Shared {
    /// A living sandbox for the key; while the lease is held it is in use.
    pub async fn acquire(self: &Arc<Self>, key: &SessionKey, wanted: Wanted<'_>) -> Result<Lease> {
        let found = self
            .look_until_found(key, wanted)
            .instrument(trace_span!("session.acquire"));
        tokio::time::timeout(deadline::LEASE, found)
            .await
            .map_err(|_| Error::new(ErrorCode::Timeout, "the session was not ready in time"))?
    }

    async fn look_until_found(
        self: &Arc<Self>,
        key: &SessionKey,
        wanted: Wanted<'_>,
    ) -> Result<Lease> {
        loop {
            // Before the look, so that no word is missed between the two.
            let room = self.room.notified();
            match self.look(key, wanted)? {
                Found::Running(in_use, sandbox) => {
                    return Ok(Lease::new(in_use, sandbox, Made::default()));
                }
                Found::Starting {
                    in_use,
                    sandbox,
                    created,
                    fresh,
                } => {
                    let sandbox = tokio::select! {
                        biased;
                        sandbox = sandbox.wait() => sandbox?,
                        error = in_use.session.until_ended() => return Err(error),
                    };
                    if let Some(error) = in_use.session.ended() {
                        return Err(error);
                    }
                    return Ok(Lease::new(in_use, sandbox, Made { created, fresh }));
                }
                // An end that failed has left something that nobody may get.
                Found::Ending(done) => done.wait().await?,
                Found::NoRoom => room.await,
            }
        }
    }

    fn look(self: &Arc<Self>, key: &SessionKey, wanted: Wanted<'_>) -> Result<Found> {
        let now = self.clock.now();
        let mut table = self.table();
        if table.closing {
            return Err(shutting_down());
        }
        if let Some(entry) = table.entries.get_mut(key) {
            if let State::Ending { done, .. } = &entry.state {
                return Ok(Found::Ending(done.clone()));
            }
            if entry.session.is_to_pause(now) {
                let key = key.clone();
                self.spawn(Arc::clone(self).pause_at_end(key));
                return Err(paused());
            }
            if let Some(reason) = entry.expired(now) {
                return Ok(match self.begin_end(&mut table, key, reason) {
                    Some(done) => Found::Ending(done),
                    None => Found::NoRoom,
                });
            }
            if let Wanted::AsAsked(new) = wanted
                && new.options.request_sha256 != entry.session.terms.options.request_sha256
            {
                return Err(Error::new(
                    ErrorCode::SessionExists,
                    "there is a session of this name that was made in another way",
                ));
            }
            if entry.session.is_paused() {
                return Err(paused());
            }
            let in_use = || InUse::new(Arc::clone(self), Arc::clone(&entry.session));
            match &entry.state {
                State::Running(sandbox) if sandbox.is_alive() => {
                    return Ok(Found::Running(in_use(), Arc::clone(sandbox)));
                }
                State::Starting(sandbox) => {
                    return Ok(Found::Starting {
                        in_use: in_use(),
                        sandbox: sandbox.clone(),
                        created: false,
                        fresh: false,
                    });
                }
                // It has just died and its watch does not know yet.
                State::Running(sandbox) => {
                    let sandbox = Arc::clone(sandbox);
                    sandbox.give_up(DestroyReason::Lost);
                    entry.state = State::Stopped(Some(sandbox));
                    self.observe_active(&table);
                }
                State::Stopped(_) | State::Ending { .. } => {}
            }
        }
        self.begin_start(&mut table, key, wanted, now)
    }

    /// Starts to make a sandbox for a session that has none.
    pub fn begin_start(
        self: &Arc<Self>,
        table: &mut Table,
        key: &SessionKey,
        wanted: Wanted<'_>,
        now: Timestamp,
    ) -> Result<Found> {
        let terms = table.entries.get(key).map(|entry| &entry.session.terms);
        let spec = match (terms, wanted) {
            (Some(terms), _) => terms.spec.clone(),
            (None, Wanted::AsAsked(new)) => new.spec.clone(),
            (None, Wanted::Existing) => {
                return Err(no_such_session());
            }
            (None, _) => self.settings.spec.clone(),
        };
        let lacking = &spec.required() - &self.backend.capabilities();
        if let Some(capability) = lacking.first() {
            let lacking = format!("{capability:?}").to_lowercase();
            return Err(Error::new(
                ErrorCode::Unsupported,
                format!("the backend `{}` has no {lacking}", self.backend_name()),
            ));
        }
        match table.admit(&key.tenant, &self.settings, now) {
            Admission::Admitted => {}
            Admission::Refused(error) => return Err(error),
            Admission::WhenOneIsGone => return Ok(Found::NoRoom),
            Admission::AfterEndOf(other, reason) => {
                self.begin_end(table, &other, reason);
                return Ok(Found::NoRoom);
            }
        }
        let mut warm = None;
        if !table.entries.contains_key(key) {
            warm = table.pool.take(&spec);
        }
        let mut displaced = None;
        if warm.is_none() && table.occupying() + table.pool.places() >= self.settings.max_sessions {
            displaced = table.pool.give_up();
            if displaced.is_none() && table.pool.places() > 0 {
                // One is being started for the pool; it is there in a moment.
                return Ok(Found::NoRoom);
            }
        }
        let (promise, sandbox) = promise();
        let starting = State::Starting(sandbox.clone());
        let (session, remains, fresh) = match table.entries.get_mut(key) {
            Some(entry) => {
                let remains = match std::mem::replace(&mut entry.state, starting) {
                    State::Stopped(remains) => remains,
                    _ => None,
                };
                (Arc::clone(&entry.session), remains, false)
            }
            None => {
                let sandbox_id = match &warm {
                    Some(pooled) => pooled.id.clone(),
                    None => key.sandbox_id(),
                };
                let session = Arc::new(self.new_session(key, sandbox_id, wanted, now));
                let entry = Entry {
                    session: Arc::clone(&session),
                    state: starting,
                };
                table.entries.insert(entry);
                (session, None, true)
            }
        };
        let in_use = InUse::new(Arc::clone(self), Arc::clone(&session));
        // Owned by us: a caller who goes away leaves nothing half made.
        let (files, by) = match wanted {
            Wanted::AsAsked(new) if fresh => (new.files.clone(), Some(new.by.clone())),
            _ => (Vec::new(), None),
        };
        self.spawn(Arc::clone(self).create(Creation {
            session,
            remains,
            fresh,
            warm,
            displaced,
            files,
            by,
            promise,
        }));
        self.observe_pool(table);
        self.pool_taken.notify_one();
        Ok(Found::Starting {
            in_use,
            sandbox,
            created: true,
            fresh,
        })
    }

    fn new_session(
        &self,
        key: &SessionKey,
        sandbox_id: SandboxId,
        wanted: Wanted<'_>,
        now: Timestamp,
    ) -> Session {
        let settings = &self.settings;
        let asked = match wanted {
            Wanted::AsAsked(new) => Some(new),
            Wanted::AsUsual | Wanted::ForOneRun | Wanted::Existing => None,
        };
        let ttl = asked.and_then(|new| new.ttl).or(settings.ttl);
        let idle_timeout = asked.and_then(|new| new.idle_timeout);
        let terms = Terms {
            key: key.clone(),
            sandbox_id,
            spec: asked.map_or(&settings.spec, |new| &new.spec).clone(),
            options: asked.map(|new| new.options.clone()).unwrap_or_default(),
            created_at: now,
            idle_timeout: idle_timeout.unwrap_or(settings.idle_timeout),
            ephemeral: matches!(wanted, Wanted::ForOneRun),
        };
        let times = Times {
            ends: ttl.map(|ttl| now.plus(ttl)),
            paused_at: None,
        };
        Session::new(terms, times, now, self.settings.runs_per_session)
    }
}

pub(crate) fn no_such_session() -> Error {
    Error::new(ErrorCode::NotFound, "there is no such session")
}
