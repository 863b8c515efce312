//! Processes: programs that outlive the request that started them.
//!
//! A process belongs to its session and ends with it. What it prints goes to a
//! ring of its own, from which any number of clients read. Who is attached holds
//! the session in use, and so does traffic; a process that nobody speaks to does
//! not keep an idle session alive.

mod followers;
mod process;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use guest_client::{ProcessEvent as GuestEvent, ProcessRequest, ProcessStream};
use sandbox_audit::{Audit, DONE, Pending};
use sandbox_core::{Clock, Error, ErrorCode, Result, SessionKey, TenantId};
use sandbox_session::{Lease, SessionManager};
use sandbox_store::AuditAction;
use sha2::{Digest as _, Sha256};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use followers::Followers;
pub use process::{Attached, Process, ProcessEnd, ProcessEvent};

use crate::request::hex;

/// How often traffic tells the session that it is in use.
const TOUCH_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct ProcessSettings {
    /// Of one session, at a time.
    pub running: usize,
    /// Of one session, that have ended and are still listed.
    pub ended: usize,
    /// Of the output of one process that is kept, about.
    pub ring_bytes: usize,
    /// Clients that are attached, of all processes.
    pub attached: usize,
    /// Of those, the clients of one tenant.
    pub tenant_attached: usize,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        Self {
            running: 16,
            ended: 64,
            ring_bytes: 1 << 20,
            attached: 512,
            tenant_attached: 64,
        }
    }
}

/// A process to start.
#[derive(Clone, Debug)]
pub struct StartProcess {
    pub key: SessionKey,
    pub argv: Vec<String>,
    /// What its owner calls it.
    pub name: Option<String>,
    pub env: BTreeMap<String, String>,
    /// Relative to the workspace, which is the default.
    pub cwd: Option<String>,
    /// Columns and rows of the terminal that it shall have.
    pub terminal: Option<(u16, u16)>,
    /// Who asks, for the audit trail.
    pub subject: String,
    pub request_id: Option<String>,
}

/// The door to all processes; a clone is the same door.
#[derive(Clone)]
pub struct Processes {
    shared: Arc<Shared>,
}

struct Shared {
    settings: ProcessSettings,
    sessions: Arc<SessionManager>,
    audit: Audit,
    clock: Arc<dyn Clock>,
    table: Mutex<HashMap<String, Arc<Process>>>,
    followers: Followers,
    tasks: TaskTracker,
}

impl Processes {
    pub fn new(
        settings: ProcessSettings,
        sessions: Arc<SessionManager>,
        audit: Audit,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let followers = Followers::new(settings.attached, settings.tenant_attached);
        Self {
            shared: Arc::new(Shared {
                settings,
                sessions,
                audit,
                clock,
                table: Mutex::default(),
                followers,
                tasks: TaskTracker::new(),
            }),
        }
    }

    /// Starts a process in a session, which is made if there is none.
    pub async fn start(&self, start: StartProcess) -> Result<Arc<Process>> {
        let shared = Arc::clone(&self.shared);
        // Ours: a caller who goes away leaves no process that nobody follows or recorded.
        let starting = self.shared.tasks.spawn(async move {
            let pending = shared.begin_record(&start);
            let result = shared.start(start).await;
            let outcome = match &result {
                Ok(_) => DONE,
                Err(error) => error.code().as_str(),
            };
            pending.end(outcome).await;
            result
        });
        starting.await.map_err(Error::internal)?
    }

    /// Those of a session, oldest first.
    pub fn list(&self, key: &SessionKey) -> Vec<Arc<Process>> {
        self.shared.forget_those_of_ended_sessions();
        let mut found: Vec<_> = self
            .shared
            .table()
            .values()
            .filter(|process| process.key() == key)
            .cloned()
            .collect();
        // A UUID of version 7 begins with its time.
        found.sort_by(|a, b| a.id().cmp(b.id()));
        found
    }

    pub fn get(&self, tenant: &TenantId, id: &str) -> Result<Arc<Process>> {
        self.shared.forget_those_of_ended_sessions();
        self.shared
            .table()
            .get(id)
            .filter(|process| process.key().tenant == *tenant)
            .cloned()
            .ok_or_else(|| Error::new(ErrorCode::NotFound, "there is no such process"))
    }

    /// Kills a process and forgets it.
    pub async fn remove(&self, process: &Process) -> Result<()> {
        const SIGKILL: u32 = 9;
        match process.signal(SIGKILL).await {
            Ok(()) => {
                process.ended().await;
            }
            Err(error) if error.code() == ErrorCode::ProcessEnded => {}
            Err(error) => return Err(error),
        }
        self.shared.table().remove(process.id());
        Ok(())
    }

    /// Reads what comes after this event, and holds the session in use.
    pub fn attach(&self, process: &Arc<Process>, after: u64) -> Result<Attached> {
        let place = self.shared.followers.take(&process.key().tenant)?;
        let lease = self.shared.sessions.lease_running(process.key());
        Ok(Attached::new(Arc::clone(process), after, lease, place))
    }

    /// Waited for at the stop: somebody who is attached shall learn of the end.
    pub fn until_done<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        self.shared.tasks.track_future(work)
    }

    /// Waits for the tasks that follow processes and for who is attached; their sandboxes have ended.
    pub async fn shutdown(&self, limit: Duration) {
        self.shared.tasks.close();
        let _ = tokio::time::timeout(limit, self.shared.tasks.wait()).await;
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Process>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start(self: &Arc<Self>, start: StartProcess) -> Result<Arc<Process>> {
        let lease = self.sessions.lease(&start.key).await?;
        let id = Uuid::now_v7().to_string();
        let process = Arc::new(Process::new(
            id.clone(),
            &start,
            lease.guest().clone(),
            self.clock.now(),
            self.settings.ring_bytes,
        ));
        // In the table first, so that no two calls pass the limit together.
        self.admit(&process)?;
        let request = ProcessRequest {
            tag: id.clone(),
            argv: start.argv,
            env: start.env,
            cwd: start.cwd,
            terminal: start.terminal,
        };
        let started = lease.call(lease.guest().start_process(request)).await;
        let stream = started.inspect_err(|_| {
            self.table().remove(&id);
        })?;
        process.has_pid(stream.pid);
        self.tasks
            .spawn(Arc::clone(self).follow(Arc::clone(&process), stream, lease));
        Ok(process)
    }

    /// Enters a process, unless its session has too many; forgets the oldest that ended.
    fn admit(&self, process: &Arc<Process>) -> Result<()> {
        self.forget_those_of_ended_sessions();
        let mut table = self.table();
        let of_session = |other: &&Arc<Process>| other.key() == process.key();
        let running = table
            .values()
            .filter(of_session)
            .filter(|other| other.end().is_none())
            .count();
        if running >= self.settings.running {
            return Err(Error::new(
                ErrorCode::ProcessLimitReached,
                format!("the session has {running} running processes, the most it may have"),
            ));
        }
        let mut ended: Vec<_> = table
            .values()
            .filter(of_session)
            .filter(|other| other.end().is_some())
            .map(|other| other.id().to_owned())
            .collect();
        ended.sort();
        let surplus = (ended.len() + 1).saturating_sub(self.settings.ended);
        for id in &ended[..surplus] {
            table.remove(id);
        }
        table.insert(process.id().to_owned(), Arc::clone(process));
        Ok(())
    }

    /// Keeps what the process prints until it ends. The lease that started it is
    /// given back: from then on attached clients and traffic keep the session.
    async fn follow(
        self: Arc<Self>,
        process: Arc<Process>,
        mut stream: ProcessStream,
        lease: Lease,
    ) {
        drop(lease);
        let mut touched = Instant::now();
        let end = loop {
            match stream.next().await {
                Ok(GuestEvent::Stdout(data)) => process.printed(ProcessEvent::Stdout(data)).await,
                Ok(GuestEvent::Stderr(data)) => process.printed(ProcessEvent::Stderr(data)).await,
                Ok(GuestEvent::Ended { exit_code, signal }) => {
                    break ProcessEnd {
                        at: self.clock.now(),
                        exit_code: Some(exit_code),
                        signal,
                    };
                }
                Err(_) => {
                    break ProcessEnd {
                        at: self.clock.now(),
                        exit_code: None,
                        signal: None,
                    };
                }
            }
            if touched.elapsed() >= TOUCH_INTERVAL {
                touched = Instant::now();
                // To take a lease is to use the session.
                drop(self.sessions.lease_running(process.key()));
            }
        };
        process.has_ended(end);
        // Another session of the same name shall not see it.
        if !self.sessions.knows(process.key()) {
            self.table().remove(process.id());
        }
    }

    fn forget_those_of_ended_sessions(&self) {
        self.table()
            .retain(|_, process| process.end().is_none() || self.sessions.knows(process.key()));
    }

    fn begin_record(&self, start: &StartProcess) -> Pending {
        let command = start.argv.join("\0");
        self.audit
            .begin(&start.key, &start.subject, AuditAction::ProcessStarted)
            .with(|record| {
                record.code_sha256 = Some(hex(&Sha256::digest(command.as_bytes())));
                record.request_id = start.request_id.clone();
            })
    }
}
