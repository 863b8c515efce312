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
//! A session that is paused is running, with its processes frozen, or stopped; no call
//! reaches it before it is resumed, and time does not end it.
//!
//! Every change is made under the table's lock. A session that is ending is
//! never joined: a call on its key waits for its end and gets another one.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use sandbox_core::{
    Error, ErrorCode, OnEnd, SandboxId, SandboxSpec, SessionKey, SessionOptions, Timestamp,
};
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

/// How long a paused session is kept.
const PAUSED_LIMIT: Duration = Duration::from_secs(30 * 24 * 3600);

/// What of its time can be changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    /// When it ends however much it is used.
    pub ends: Option<Timestamp>,
    pub paused_at: Option<Timestamp>,
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
    /// Changed under the table's lock, so that a call sees either all or nothing of it.
    times: Mutex<Times>,
    /// Cancelled when it is paused; another one when it goes on.
    pause: Mutex<CancellationToken>,
    /// Held from the beginning of a pause or its end until all of that is done.
    pub pausing: Arc<tokio::sync::Mutex<()>>,
    /// Held while its row is written, so that the last word stays.
    pub writing: tokio::sync::Mutex<()>,
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
    pub fn new(terms: Terms, times: Times, last_used: Timestamp, turns: usize) -> Self {
        let turns = turns.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            terms,
            pause: Mutex::new(match times.paused_at {
                Some(_) => cancelled(),
                None => CancellationToken::new(),
            }),
            times: Mutex::new(times),
            pausing: Arc::default(),
            writing: tokio::sync::Mutex::default(),
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
            ..Self::new(
                self.terms.clone(),
                self.times().clone(),
                self.last_used(),
                self.turns_total,
            )
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
        let times = self.times();
        match (times.paused_at, times.ends) {
            (Some(since), _) => since.plus(PAUSED_LIMIT),
            (None, Some(ends)) => ends.min(idle),
            (None, None) => idle,
        }
    }

    /// Why it should end now. Never for idleness while somebody uses it.
    pub fn expired(&self, now: Timestamp) -> Option<DestroyReason> {
        if self.doomed.is_some() {
            return self.doomed;
        }
        let times = self.times().clone();
        if let Some(since) = times.paused_at {
            return (since.plus(PAUSED_LIMIT) <= now).then_some(DestroyReason::Idle);
        }
        if times.ends.is_some_and(|ends| ends <= now) {
            return (self.terms.options.on_end == OnEnd::Delete).then_some(DestroyReason::Ttl);
        }
        (!self.in_use() && self.expires(now) <= now).then_some(DestroyReason::Idle)
    }

    /// Whether its time is over and it is to be kept.
    pub fn is_to_pause(&self, now: Timestamp) -> bool {
        let times = self.times();
        self.terms.options.on_end != OnEnd::Delete
            && self.doomed.is_none()
            && times.paused_at.is_none()
            && times.ends.is_some_and(|ends| ends <= now)
    }

    pub fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_paused(&self) -> bool {
        self.times().paused_at.is_some()
    }

    /// Ends every call in it, until it goes on.
    pub fn pause(&self, now: Timestamp) {
        self.times().paused_at = Some(now);
        self.pause_token().cancel();
    }

    /// It is paused as it was before it was to go on.
    pub fn pause_as(&self, before: Times) {
        *self.times() = before;
        self.pause_token().cancel();
    }

    /// It goes on, to this end.
    pub fn go_on(&self, ends: Option<Timestamp>) {
        let mut pause = self.pause_token();
        *self.times() = Times {
            ends,
            paused_at: None,
        };
        *pause = CancellationToken::new();
    }

    fn pause_token(&self) -> MutexGuard<'_, CancellationToken> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is cancelled when it is paused next.
    pub fn next_pause(&self) -> CancellationToken {
        self.pause_token().clone()
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

fn cancelled() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}

/// What a call learns whose session is paused, or was paused under it.
pub(crate) fn paused() -> Error {
    Error::new(
        ErrorCode::SessionPaused,
        "the session is paused; resume it first",
    )
}
