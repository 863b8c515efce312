//! Every run that is under way, and those whose outcome is still kept.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sandbox_admission::Admission;
use sandbox_audit::Audit;
use sandbox_core::{Clock, Error, ErrorCode, ExecutionId, Result, TenantId, Timestamp};
use sandbox_session::{RunReport, SessionManager};
use sandbox_store::ExecutionStore;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, trace_span};

use crate::{Artifacts, Attachment, Execution, ExecutionRequest, execution::Named};

#[derive(Clone, Debug)]
pub struct ExecutionSettings {
    /// Of the events of one run that are kept, about.
    pub ring_bytes: usize,
    /// How long an outcome is kept after the run's end.
    pub retention: Duration,
    /// Of all outcomes that are kept, about; the oldest go first.
    pub kept_bytes: usize,
    /// The audit trail has the code too, not only its hash.
    pub audit_code: bool,
}

impl Default for ExecutionSettings {
    fn default() -> Self {
        Self {
            ring_bytes: 1 << 20,
            retention: Duration::from_secs(600),
            kept_bytes: 64 << 20,
            audit_code: false,
        }
    }
}

/// Is told how runs end; metrics are made of it.
pub trait Observer: Send + Sync {
    /// `outcome` is a termination, or the code of an error.
    fn run_ended(&self, backend: &str, language: &str, outcome: &str, took: Duration);
}

/// The door to all executions; a clone is the same door.
#[derive(Clone)]
pub struct Executions {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub sessions: Arc<SessionManager>,
    pub admission: Arc<Admission>,
    pub audit: Audit,
    pub artifacts: Artifacts,
    pub claims: Arc<dyn ExecutionStore>,
    pub clock: Arc<dyn Clock>,
    pub settings: ExecutionSettings,
    observer: Arc<dyn Observer>,
    table: Mutex<Table>,
    tasks: TaskTracker,
}

type Key = (TenantId, ExecutionId);

#[derive(Default)]
struct Table {
    executions: HashMap<Key, Arc<Execution>>,
    /// Those that have ended, oldest first.
    ended: VecDeque<Ended>,
    ended_bytes: usize,
}

struct Ended {
    key: Key,
    at: Timestamp,
    bytes: usize,
}

/// What executions are made with.
pub struct Parts {
    pub sessions: Arc<SessionManager>,
    pub admission: Arc<Admission>,
    pub audit: Audit,
    pub artifacts: Artifacts,
    pub claims: Arc<dyn ExecutionStore>,
    pub clock: Arc<dyn Clock>,
    pub observer: Arc<dyn Observer>,
}

impl Executions {
    pub fn new(settings: ExecutionSettings, parts: Parts) -> Self {
        Self {
            shared: Arc::new(Shared {
                sessions: parts.sessions,
                admission: parts.admission,
                audit: parts.audit,
                artifacts: parts.artifacts,
                claims: parts.claims,
                clock: parts.clock,
                settings,
                observer: parts.observer,
                table: Mutex::default(),
                tasks: TaskTracker::new(),
            }),
        }
    }

    /// Starts a run, or joins the one that has this name already.
    pub fn start(&self, request: ExecutionRequest) -> Result<Attachment> {
        let shared = &self.shared;
        let claim = request.id.is_some();
        let sha256 = if claim {
            request.sha256()
        } else {
            String::new()
        };
        let id = request.id.clone().unwrap_or_else(ExecutionId::generate);
        let key = (request.tenant.clone(), id.clone());
        let attachment = {
            let mut table = shared.table();
            if let Some(execution) = table.executions.get(&key) {
                if execution.request_sha256() != sha256 {
                    return Err(mismatch());
                }
                if request.detach {
                    execution.detach();
                }
                return Ok(execution.attach());
            }
            let named = Named {
                id,
                tenant: request.tenant.clone(),
                session: request.session.clone(),
                language: request.language.clone(),
                runtime: request.runtime.clone(),
                context: request
                    .run
                    .context
                    .as_ref()
                    .map(|context| context.name.clone()),
                missing: request.missing.clone(),
                request_sha256: sha256,
                detach: request.detach,
            };
            let output_limit = request.run.output_limit;
            let execution = Arc::new(Execution::new(
                named,
                output_limit,
                shared.settings.ring_bytes,
            ));
            table.executions.insert(key, Arc::clone(&execution));
            execution.attach()
        };
        let driven = Arc::clone(shared).drive(Arc::clone(&attachment), request, claim);
        // At this level it costs nothing where neither an exporter nor the log wants it.
        let span = trace_span!("run", run.language = %attachment.language());
        shared.tasks.spawn(driven.instrument(span));
        Ok(attachment)
    }

    /// A run that is under way, or whose outcome is still kept.
    pub fn get(&self, tenant: &TenantId, id: &ExecutionId) -> Option<Arc<Execution>> {
        let key = (tenant.clone(), id.clone());
        self.shared.table().executions.get(&key).cloned()
    }

    /// Forgets outcomes whose time is up.
    pub fn sweep(&self) {
        self.shared.make_room();
    }

    /// Waits until every run has ended; after `grace` they are cancelled. The
    /// sessions are shut down beside this, so that no new ones begin.
    pub async fn shutdown(&self, grace: Duration) {
        self.shared.tasks.close();
        if tokio::time::timeout(grace, self.shared.tasks.wait())
            .await
            .is_err()
        {
            let running: Vec<_> = self.shared.table().executions.values().cloned().collect();
            for execution in running {
                execution.cancel();
            }
            self.shared.tasks.wait().await;
        }
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the name for good: also another service on the same database, or
    /// this one after a restart, will not run it again.
    pub async fn claim(&self, execution: &Execution) -> Result<()> {
        let taken = self
            .claims
            .claim(
                execution.tenant(),
                execution.id(),
                execution.request_sha256(),
                self.clock.now(),
            )
            .await?;
        match taken {
            None => Ok(()),
            Some(sha256) if sha256 == execution.request_sha256() => Err(Error::new(
                ErrorCode::ExecutionExpired,
                "a run with this execution_id was made before, and its answer is no longer kept",
            )),
            Some(_) => Err(mismatch()),
        }
    }

    pub async fn release(&self, execution: &Execution) {
        let released = self
            .claims
            .release(execution.tenant(), execution.id())
            .await;
        if let Err(error) = released {
            tracing::warn!(
                error.code = error.code().as_str(),
                "failed to free the name of a run that did not begin"
            );
        }
    }

    pub fn forget(&self, execution: &Execution) {
        self.table().executions.remove(&key(execution));
    }

    /// From now on the execution may be forgotten.
    pub fn keep_for_a_while(&self, execution: &Execution) {
        let bytes = execution.bytes();
        let mut table = self.table();
        let key = key(execution);
        if !table.executions.contains_key(&key) {
            return;
        }
        table.ended_bytes += bytes;
        table.ended.push_back(Ended {
            key,
            at: self.clock.now(),
            bytes,
        });
    }

    pub fn make_room(&self) {
        let now = self.clock.now();
        let mut table = self.table();
        while let Some(oldest) = table.ended.front() {
            let over = table.ended_bytes > self.settings.kept_bytes;
            if !over && now.since(oldest.at) < self.settings.retention {
                break;
            }
            if let Some(oldest) = table.ended.pop_front() {
                table.ended_bytes -= oldest.bytes;
                table.executions.remove(&oldest.key);
            }
        }
    }

    pub fn observe(&self, execution: &Execution, result: &Result<RunReport>, took: Duration) {
        let (backend, outcome) = match result {
            Ok(report) => (report.place.backend, report.outcome.termination.as_str()),
            Err(error) => (self.sessions.backend_name(), error.code().as_str()),
        };
        self.observer
            .run_ended(backend, execution.language(), outcome, took);
    }
}

fn key(execution: &Execution) -> Key {
    (execution.tenant().clone(), execution.id().clone())
}

fn mismatch() -> Error {
    Error::new(
        ErrorCode::ExecutionMismatch,
        "this execution_id was used for another request",
    )
}
