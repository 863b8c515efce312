//! One session, from its first call to its end.
//!
//! ```text
//!         first call               sandbox answers
//! (none) ------------> starting -------------------> running
//!    ^                  |    ^                        |   |
//!    |        cannot be |    | next call      sandbox |   |
//!    |        made again|    |                   died |   |
//!    |                  v    |                        v   |
//!    |   restart ----> stopped <----------------------'   |
//!    |                    |                               |
//!    | all is removed     v   deleted, idle, too old      |
//!    '----------------- ending <--------------------------'
//!                         ^
//!                         '---- starting: deleted, or the first start failed
//! ```
//!
//! Every change is made under the table's lock. A session that is ending is
//! never joined: a call on its key waits for its end and gets another one.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use sandbox_core::{Error, SandboxId, SandboxSpec, SessionKey, SessionOptions, Timestamp};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{DestroyReason, contexts::ContextTurns, outcome::Outcome, sandbox::Sandbox};

/// Where a session is in its life.
pub(crate) enum State {
    Starting(Outcome<Arc<Sandbox>>),
    Running(Arc<Sandbox>),
    /// With the sandbox that died, until it is certain that nothing of it runs.
    Stopped(Option<Arc<Sandbox>>),
    Ending {
        done: Outcome<()>,
        /// A process of it may still run.
        occupies: bool,
    },
}

/// What stays the same over the life of a session.
#[derive(Clone)]
pub(crate) struct Terms {
    pub key: SessionKey,
    pub sandbox_id: SandboxId,
    pub spec: SandboxSpec,
    pub options: SessionOptions,
    pub created_at: Timestamp,
    pub idle_timeout: Duration,
    pub expires_at: Option<Timestamp>,
    /// Made for one run: no row, no second start.
    pub ephemeral: bool,
}

pub(crate) struct Session {
    pub terms: Terms,
    /// Turns to run; tokio's semaphore is fair.
    pub turns: Arc<Semaphore>,
    turns_total: usize,
    pub context_turns: ContextTurns,
    pub queued: AtomicUsize,
    /// Calls and streams that use it; counted up under the table's lock.
    pub(crate) leases: AtomicUsize,
    last_used: AtomicI64,
    /// `last_used` is later than what the store knows.
    touched: AtomicBool,
    /// Cancelled when it begins to end; why is known before.
    ending: CancellationToken,
    reason: OnceLock<DestroyReason>,
    /// An end that failed is tried again, for the same reason.
    doomed: Option<DestroyReason>,
}

impl Session {
    pub fn new(terms: Terms, last_used: Timestamp, turns: usize) -> Self {
        let turns = turns.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            terms,
            turns: Arc::new(Semaphore::new(turns)),
            turns_total: turns,
            context_turns: ContextTurns::default(),
            queued: AtomicUsize::new(0),
            leases: AtomicUsize::new(0),
            last_used: AtomicI64::new(last_used.0),
            touched: AtomicBool::new(false),
            ending: CancellationToken::new(),
            reason: OnceLock::new(),
            doomed: None,
        }
    }

    /// The same session after an end that failed.
    pub fn doomed(&self, reason: DestroyReason) -> Self {
        Self {
            doomed: Some(reason),
            ..Self::new(self.terms.clone(), self.last_used(), self.turns_total)
        }
    }

    pub fn key(&self) -> &SessionKey {
        &self.terms.key
    }

    pub fn sandbox_id(&self) -> &SandboxId {
        &self.terms.sandbox_id
    }

    pub fn active_runs(&self) -> usize {
        self.turns_total
            .saturating_sub(self.turns.available_permits())
    }

    pub fn in_use(&self) -> bool {
        self.leases.load(Ordering::SeqCst) > 0
    }

    pub fn last_used(&self) -> Timestamp {
        Timestamp(self.last_used.load(Ordering::SeqCst))
    }

    pub fn touch(&self, now: Timestamp) {
        self.last_used.store(now.0, Ordering::SeqCst);
        self.touched.store(true, Ordering::SeqCst);
    }

    /// When it was last used, if the store does not know yet.
    pub fn take_touched(&self, now: Timestamp) -> Option<Timestamp> {
        if self.in_use() {
            self.touch(now);
        }
        (self.touched.swap(false, Ordering::SeqCst) && !self.terms.ephemeral)
            .then(|| self.last_used())
    }

    /// The store did not take it.
    pub fn keep_touched(&self) {
        self.touched.store(true, Ordering::SeqCst);
    }

    /// When it ends if nobody uses it from `now` on.
    pub fn expires(&self, now: Timestamp) -> Timestamp {
        let used = if self.in_use() { now } else { self.last_used() };
        let idle = used.plus(self.terms.idle_timeout);
        self.terms.expires_at.map_or(idle, |ttl| ttl.min(idle))
    }

    /// Why it should end now. Never for idleness while somebody uses it.
    pub fn expired(&self, now: Timestamp) -> Option<DestroyReason> {
        if self.doomed.is_some() {
            return self.doomed;
        }
        if self.terms.expires_at.is_some_and(|ttl| ttl <= now) {
            return Some(DestroyReason::Ttl);
        }
        (!self.in_use() && self.expires(now) <= now).then_some(DestroyReason::Idle)
    }

    /// Ends every call in it.
    pub fn end(&self, reason: DestroyReason) {
        let _ = self.reason.set(reason);
        self.ending.cancel();
    }

    /// What its callers learn, once it is ending.
    pub fn ended(&self) -> Option<Error> {
        self.ending
            .is_cancelled()
            .then(|| self.reason.get().copied())
            .map(|reason| reason.unwrap_or(DestroyReason::Deleted).error())
    }

    pub async fn until_ended(&self) -> Error {
        self.ending.cancelled().await;
        self.ended()
            .unwrap_or_else(|| DestroyReason::Deleted.error())
    }
}
