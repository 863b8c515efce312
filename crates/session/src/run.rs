//! Runs: their turn, their sandbox, and why they ended.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use guest_client::{Collected, RunEnd, RunEvent, RunStream, ended_early, messages::WriteRequest};
use sandbox_core::{
    ContextName, Enforcement, Error, ErrorCode, Result, RunOutcome, RunRequest, SandboxSpec,
    SessionId, SessionKey, TenantId, Termination,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::{
    DestroyReason, Lease, SessionManager, deadline, new::Wanted, session::Session, shared::Shared,
};

/// 128 + SIGKILL.
const KILLED: i32 = 137;

/// How a run ended, and where it ran.
#[derive(Clone, Debug)]
pub struct RunReport {
    pub outcome: RunOutcome,
    pub place: RunPlace,
}

/// Where a run runs.
#[derive(Clone, Debug)]
pub struct RunPlace {
    /// `None` when the sandbox was made for this run alone.
    pub session: Option<SessionId>,
    /// The sandbox was made for this run: the session is new, or its sandbox had died.
    pub session_created: bool,
    pub backend: &'static str,
    pub spec: SandboxSpec,
    pub enforcement: Enforcement,
}

/// A program that runs in a session; dropping it kills the program.
pub struct ActiveRun {
    // In this order: a session of this run alone ends after its lease.
    events: RunStream,
    place: RunPlace,
    kills_before: Option<u64>,
    lease: Lease,
    _turn: Turn,
    _ends_after: Option<EndsAfter>,
}

impl SessionManager {
    /// Writes the files and starts the program. Without a session the run gets
    /// one of its own, which ends after it.
    pub async fn start_run(
        &self,
        tenant: &TenantId,
        session: Option<&SessionId>,
        files: Vec<WriteRequest>,
        request: RunRequest,
    ) -> Result<ActiveRun> {
        let key = SessionKey::new(
            tenant.clone(),
            match session {
                Some(session) => session.clone(),
                None => format!("run-{}", Uuid::new_v4().simple()).parse()?,
            },
        );
        let wanted = match session {
            Some(_) => Wanted::AsUsual,
            None => Wanted::ForOneRun,
        };
        self.begin_run(&key, wanted, files, request).await
    }

    /// The same in a session that is there; else it is `not_found`.
    pub async fn start_run_in_existing(
        &self,
        key: &SessionKey,
        files: Vec<WriteRequest>,
        request: RunRequest,
    ) -> Result<ActiveRun> {
        self.begin_run(key, Wanted::Existing, files, request).await
    }

    async fn begin_run(
        &self,
        key: &SessionKey,
        wanted: Wanted<'_>,
        files: Vec<WriteRequest>,
        request: RunRequest,
    ) -> Result<ActiveRun> {
        let is_for_it_alone = matches!(wanted, Wanted::ForOneRun);
        // Before the lease, so that it is dropped after it.
        let ends_after = is_for_it_alone.then(|| EndsAfter {
            shared: Arc::clone(&self.shared),
            key: key.clone(),
        });
        let context = request.context.as_ref().map(|context| &context.name);
        let (lease, turn) = self.shared.turn(key, wanted, context).await?;
        for file in files {
            lease.call(lease.guest().write(file)).await?;
        }
        let kills_before = lease.sandbox.place.oom_kills();
        let events = lease.call(lease.guest().run(request)).await;
        Ok(ActiveRun {
            events: give_up_when_late(&lease, events)?,
            place: RunPlace {
                session: (!is_for_it_alone).then(|| key.session.clone()),
                session_created: lease.made.created,
                backend: self.shared.backend_name(),
                spec: lease.in_use.session.terms.spec.clone(),
                enforcement: self.shared.backend.enforcement(),
            },
            kills_before,
            lease,
            _turn: turn,
            _ends_after: ends_after,
        })
    }

    /// Runs the program to its end; dropping the future kills it.
    pub async fn run(
        &self,
        tenant: &TenantId,
        session: Option<&SessionId>,
        files: Vec<WriteRequest>,
        request: RunRequest,
    ) -> Result<RunReport> {
        let mut collected = Collected::within(request.output_limit);
        let mut run = self.start_run(tenant, session, files, request).await?;
        loop {
            match run.next().await? {
                RunEvent::Ended(end) => {
                    return Ok(RunReport {
                        outcome: collected.ended(end),
                        place: run.place,
                    });
                }
                event => collected.add(&event),
            }
        }
    }
}

impl ActiveRun {
    pub fn place(&self) -> &RunPlace {
        &self.place
    }

    /// The next thing that happens; nothing comes after the run's end.
    pub async fn next(&mut self) -> Result<RunEvent> {
        let next = self.lease.call(self.events.next()).await;
        match give_up_when_late(&self.lease, next)? {
            Some(RunEvent::Ended(mut end)) => {
                if self.was_out_of_memory(&end) {
                    end.termination = Termination::OutOfMemory;
                }
                Ok(RunEvent::Ended(end))
            }
            Some(event) => Ok(event),
            None => Err(ended_early()),
        }
    }

    fn was_out_of_memory(&self, end: &RunEnd) -> bool {
        end.exit_code == KILLED
            && matches!(end.termination, Termination::Exited | Termination::Signaled)
            && matches!(
                (self.kills_before, self.lease.sandbox.place.oom_kills()),
                (Some(before), Some(after)) if after > before
            )
    }
}

/// A guest that cannot end a run long after its time will not end others.
fn give_up_when_late<T>(lease: &Lease, result: Result<T>) -> Result<T> {
    result.inspect_err(|error| {
        if error.code() == ErrorCode::Timeout {
            lease.give_up();
        }
    })
}

impl Shared {
    /// Waits until it is this run's turn in its session, and for the sandbox.
    async fn turn(
        self: &Arc<Self>,
        key: &SessionKey,
        wanted: Wanted<'_>,
        context: Option<&ContextName>,
    ) -> Result<(Lease, Turn)> {
        let lease = self.acquire(key, wanted).await?;
        let began = Instant::now();
        let session = &lease.in_use.session;
        // First, so that runs that wait for one context take no turns of the others.
        let of_context = match context {
            Some(name) => Some(self.queue(session, session.context_turns.of(name)).await?),
            None => None,
        };
        let turn = Turn {
            _of_session: self.queue(session, Arc::clone(&session.turns)).await?,
            _of_context: of_context,
        };
        self.observer.waited(began.elapsed());
        if let Some(error) = session.ended() {
            return Err(error);
        }
        if lease.sandbox.is_alive() {
            return Ok((lease, turn));
        }
        // It died while this run waited; the lease before keeps the session.
        let mut again = self.acquire(key, wanted).await?;
        if !Arc::ptr_eq(session, &again.in_use.session) {
            return Err(session.ended().unwrap_or_else(busy));
        }
        again.made.created |= lease.made.created;
        Ok((again, turn))
    }

    async fn queue(
        &self,
        session: &Arc<Session>,
        turns: Arc<Semaphore>,
    ) -> Result<OwnedSemaphorePermit> {
        if let Ok(turn) = Arc::clone(&turns).try_acquire_owned() {
            return Ok(turn);
        }
        let limit = self.settings.queued_runs_per_session;
        let _place = Queued::new(session, limit).ok_or_else(busy)?;
        let turn = turns.acquire_owned();
        tokio::select! {
            biased;
            error = session.until_ended() => Err(error),
            turn = tokio::time::timeout(deadline::TURN, turn) => match turn {
                Ok(turn) => turn.map_err(Error::internal),
                Err(_) => Err(busy()),
            },
        }
    }

    fn end_after_run(self: &Arc<Self>, key: &SessionKey) {
        let mut table = self.table();
        if table
            .entries
            .get(key)
            .is_some_and(|entry| entry.session.terms.ephemeral)
        {
            self.begin_end(&mut table, key, DestroyReason::Finished);
        }
    }
}

fn busy() -> Error {
    Error::new(ErrorCode::SessionBusy, "too many runs wait in this session")
        .with_retry_after(Duration::from_secs(1))
}

/// A run's turn in its session, and in its context.
struct Turn {
    _of_session: OwnedSemaphorePermit,
    _of_context: Option<OwnedSemaphorePermit>,
}

/// A place in the queue of a session.
struct Queued<'a>(&'a Session);

impl<'a> Queued<'a> {
    fn new(session: &'a Session, limit: usize) -> Option<Self> {
        let more = |queued: usize| (queued < limit).then_some(queued + 1);
        session
            .queued
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
            .ok()
            .map(|_| Self(session))
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends the session of a single run, also when its caller has gone.
struct EndsAfter {
    shared: Arc<Shared>,
    key: SessionKey,
}

impl Drop for EndsAfter {
    fn drop(&mut self) {
        self.shared.end_after_run(&self.key);
    }
}
