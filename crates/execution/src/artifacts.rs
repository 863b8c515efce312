//! What is known of artifacts: written behind the answers, read with them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use guest_client::messages::RemoveArtifactsRequest;
use sandbox_core::{Artifact, Clock, Result, SessionKey, TenantId, Timestamp};
use sandbox_session::SessionManager;
use sandbox_store::{ArtifactRecord, ArtifactStore};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

use crate::Execution;

/// Artifacts that may wait to be written; then the runs that make more wait.
const QUEUE: usize = 1024;
/// Between two looks for artifacts whose time is up.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(1);
/// Written or removed in one step.
const BATCH: usize = 200;

#[derive(Clone, Debug)]
pub struct ArtifactSettings {
    /// `None`: as long as their session.
    pub retention: Option<Duration>,
    /// Of all artifacts of a tenant; the oldest go first.
    pub tenant_bytes: u64,
}

/// The registry of artifacts; a clone is the same one.
#[derive(Clone)]
pub struct Artifacts {
    shared: Arc<Shared>,
    queue: mpsc::Sender<ArtifactRecord>,
}

struct Shared {
    settings: ArtifactSettings,
    store: Arc<dyn ArtifactStore>,
    sessions: Arc<SessionManager>,
    clock: Arc<dyn Clock>,
    /// Those that the store does not have yet.
    pending: Mutex<HashMap<String, ArtifactRecord>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Artifacts {
    pub fn start(
        settings: ArtifactSettings,
        store: Arc<dyn ArtifactStore>,
        sessions: Arc<SessionManager>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (queue, queued) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            settings,
            store,
            sessions,
            clock,
            pending: Mutex::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        shared.tasks.spawn(Arc::clone(&shared).write(queued));
        shared.tasks.spawn(Arc::clone(&shared).sweep());
        Self { shared, queue }
    }

    pub async fn find(&self, id: &str) -> Result<Option<ArtifactRecord>> {
        let pending = self.shared.pending().get(id).cloned();
        let found = match pending {
            Some(record) => Some(record),
            None => self.shared.store.find_artifact(id).await?,
        };
        // What was told of while its session ended is not there to be fetched, and
        // who asks for it must not make the session anew.
        Ok(found.filter(|record| self.shared.sessions.knows(&record.session)))
    }

    /// Those of a session, newest first.
    pub async fn of_session(
        &self,
        session: &SessionKey,
        limit: usize,
    ) -> Result<Vec<ArtifactRecord>> {
        if !self.shared.sessions.knows(session) {
            return Ok(Vec::new());
        }
        let mut found = self.shared.store.session_artifacts(session, limit).await?;
        {
            let pending = self.shared.pending();
            let known: Vec<_> = pending
                .values()
                .filter(|record| record.session == *session)
                .filter(|record| !found.iter().any(|other| other.id == record.id))
                .cloned()
                .collect();
            found.extend(known);
        }
        found.sort_by(|a, b| b.id.cmp(&a.id));
        found.truncate(limit);
        Ok(found)
    }

    /// Remembers what a run has made, before anybody is told of it; it waits only
    /// when very many are queued.
    pub(crate) async fn keep(&self, execution: &Execution, artifact: &Artifact) {
        let Some(session) = execution.session() else {
            return;
        };
        let record = ArtifactRecord {
            id: artifact.id.clone(),
            session: SessionKey::new(execution.tenant().clone(), session.clone()),
            execution: execution.id().clone(),
            name: artifact.name.clone(),
            path: artifact.path.clone(),
            stored_path: artifact.stored_path.clone(),
            kind: artifact.kind.clone(),
            mime_type: artifact.mime_type.clone(),
            size_bytes: artifact.size_bytes,
            sha256: artifact.sha256.clone(),
            table: artifact.table.clone(),
            created_at: self.shared.clock.now(),
        };
        // A place first: what is pending is in the queue, also when the run is
        // cancelled meanwhile. The writer ends after the last run.
        if let Ok(place) = self.queue.reserve().await {
            self.shared
                .pending()
                .insert(record.id.clone(), record.clone());
            place.send(record);
        }
    }

    /// Writes what is queued, then stops.
    pub async fn shutdown(&self, limit: Duration) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        if tokio::time::timeout(limit, self.shared.tasks.wait())
            .await
            .is_err()
        {
            warn!("artifacts were not written before the service stopped");
        }
    }
}

impl Shared {
    fn pending(&self) -> std::sync::MutexGuard<'_, HashMap<String, ArtifactRecord>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write(self: Arc<Self>, mut queued: mpsc::Receiver<ArtifactRecord>) {
        let mut records = Vec::with_capacity(BATCH);
        loop {
            records.clear();
            tokio::select! {
                biased;
                _ = queued.recv_many(&mut records, BATCH) => {}
                () = self.stop.cancelled() => {}
            }
            if records.is_empty() {
                return;
            }
            while let Err(error) = self.store.add_artifacts(&records).await {
                warn!(
                    error.code = error.code().as_str(),
                    "failed to write artifacts; trying again"
                );
                if self.stop.is_cancelled() {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
            {
                let mut pending = self.pending();
                for record in &records {
                    pending.remove(&record.id);
                }
            }
            if let Err(error) = self.tidy(&records).await {
                warn!(
                    error.code = error.code().as_str(),
                    "failed to make room for artifacts"
                );
            }
        }
    }

    /// After these were written.
    async fn tidy(&self, written: &[ArtifactRecord]) -> Result<()> {
        let sessions: HashSet<_> = written.iter().map(|record| &record.session).collect();
        for session in &sessions {
            // It ended before its last artifacts were written: its end did not take them.
            if !self.sessions.knows(session) {
                self.store.remove_session_artifacts(session).await?;
            }
        }
        let tenants: HashSet<_> = sessions.iter().map(|session| &session.tenant).collect();
        for tenant in tenants {
            self.within_quota(tenant).await?;
        }
        Ok(())
    }

    /// The oldest of a tenant's artifacts make room for the newest.
    async fn within_quota(&self, tenant: &TenantId) -> Result<()> {
        loop {
            let used = self.store.tenant_artifact_bytes(tenant).await?;
            let Some(mut over) = used.checked_sub(self.settings.tenant_bytes) else {
                return Ok(());
            };
            if over == 0 {
                return Ok(());
            }
            let mut oldest = self.store.tenant_artifacts(tenant, BATCH).await?;
            let enough = oldest
                .iter()
                .position(|record| {
                    over = over.saturating_sub(record.size_bytes);
                    over == 0
                })
                .map_or(oldest.len(), |last| last + 1);
            oldest.truncate(enough);
            if oldest.is_empty() {
                return Ok(());
            }
            self.remove(oldest).await?;
        }
    }

    async fn sweep(self: Arc<Self>) {
        let Some(retention) = self.settings.retention else {
            return;
        };
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(SWEEP_INTERVAL.min(retention)) => {}
            }
            let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
            let before = Timestamp(self.clock.now().0.saturating_sub(retention));
            if let Err(error) = self.remove_before(before).await {
                warn!(
                    error.code = error.code().as_str(),
                    "failed to remove old artifacts"
                );
            }
        }
    }

    async fn remove_before(&self, before: Timestamp) -> Result<()> {
        loop {
            let old = self.store.artifacts_before(before, BATCH).await?;
            if old.is_empty() {
                return Ok(());
            }
            self.remove(old).await?;
        }
    }

    async fn remove(&self, records: Vec<ArtifactRecord>) -> Result<()> {
        let ids: Vec<_> = records.iter().map(|record| record.id.clone()).collect();
        self.store.remove_artifacts(&ids).await?;
        let mut copies: HashMap<SessionKey, Vec<String>> = HashMap::new();
        for record in records {
            copies
                .entry(record.session)
                .or_default()
                .push(record.stored_path);
        }
        for (session, stored_paths) in copies {
            // A sandbox is not started for this; the copies end with the session.
            if let Some(lease) = self.sessions.lease_running(&session) {
                let request = RemoveArtifactsRequest {
                    stored_paths,
                    ..Default::default()
                };
                let _ = lease
                    .call(lease.guest().remove_artifacts(request))
                    .await
                    .inspect_err(|error| {
                        tracing::debug!(
                            error.code = error.code().as_str(),
                            "failed to remove the copies of artifacts"
                        );
                    });
            }
        }
        Ok(())
    }
}
