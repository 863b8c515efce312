//! A run's straight line: admitted, started, followed, ended, remembered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use guest_client::RunEvent;
use sandbox_core::{Error, ErrorCode, Result, SessionKey, Termination};
use sandbox_session::RunReport;
use tracing::{Instrument as _, trace_span};

use crate::{
    ExecutionRequest,
    execution::{Execution, abandoned},
    executions::Shared,
};

/// Ends an execution whose task was dropped or panicked.
struct Abandoned(Option<Arc<Execution>>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(execution) = self.0.take() {
            // The ring has room for the end, so this never waits.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { execution.finish(Err(abandoned())).await });
            }
        }
    }
}

impl Shared {
    pub(crate) async fn drive(
        self: Arc<Self>,
        execution: Arc<Execution>,
        request: ExecutionRequest,
        claim: bool,
    ) {
        let mut abandoned = Abandoned(Some(Arc::clone(&execution)));
        let began = Instant::now();
        let at = self.clock.now();
        let audit = self.audit_of(&execution, &request, at);
        let result = self.to_end(&execution, request, claim).await;
        self.observe(&execution, &result, began.elapsed());
        self.audit
            .record(audit.ended(&result, began.elapsed()))
            .await;
        if !execution.has_started() {
            self.forget(&execution);
        }
        execution.finish(result).await;
        abandoned.0 = None;
        self.keep_for_a_while(&execution);
        self.make_room();
    }

    async fn to_end(
        &self,
        execution: &Arc<Execution>,
        request: ExecutionRequest,
        claim: bool,
    ) -> Result<RunReport> {
        let claimed = AtomicBool::new(false);
        let run = async {
            if claim {
                self.claim(execution).await?;
                claimed.store(true, Ordering::Relaxed);
            }
            let place = self.admission.run(&request.tenant);
            let _permit = place.instrument(trace_span!("run.admission")).await?;
            self.follow(execution, request).await
        };
        let result = tokio::select! {
            biased;
            result = run => result,
            () = execution.cancel.cancelled() => Err(cancelled()),
        };
        // Nothing was run under this name: it may be tried again.
        if claimed.load(Ordering::Relaxed) && !execution.has_started() {
            self.release(execution).await;
        }
        // What the program did until then is its outcome.
        match result {
            Err(error) if error.code() == ErrorCode::Cancelled => {
                execution.cut_short(Termination::Cancelled).ok_or(error)
            }
            Err(error) if error.code() == ErrorCode::SandboxLost => {
                execution.cut_short(Termination::SandboxLost).ok_or(error)
            }
            result => result,
        }
    }

    async fn follow(
        &self,
        execution: &Arc<Execution>,
        request: ExecutionRequest,
    ) -> Result<RunReport> {
        let sessions = &self.sessions;
        let mut run = match request.session {
            Some(session) if request.existing => {
                let key = SessionKey::new(request.tenant, session);
                let run = sessions.start_run_in_existing(&key, request.files, request.run);
                run.await?
            }
            session => {
                let (files, run) = (request.files, request.run);
                let run = sessions.start_run(&request.tenant, session.as_ref(), files, run);
                run.await?
            }
        };
        execution.begin(run.place().clone()).await;
        loop {
            match run.next().await? {
                RunEvent::Ended(end) => {
                    return execution.report(end).ok_or_else(abandoned);
                }
                event => {
                    if let RunEvent::Artifact(artifact) = &event {
                        self.artifacts.keep(execution, artifact).await;
                    }
                    execution.happened(event).await;
                }
            }
        }
    }
}

fn cancelled() -> Error {
    Error::new(
        ErrorCode::Cancelled,
        "the run was cancelled before it started",
    )
}
