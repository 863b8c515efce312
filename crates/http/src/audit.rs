//! What is done to files and sessions, for the audit trail and the metrics; runs
//! tell of themselves.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use sandbox_audit::Audit;
use sandbox_core::{Clock, Result, SessionKey};
use sandbox_session::{CreatedBy, DestroyReason, Observer};
use sandbox_store::{AuditAction, AuditRecord};

use crate::{AppState, Metrics, caller::Caller};

/// Who did what nobody asked for: a session begins with its first call and ends
/// when it is idle.
const SERVICE: &str = "sandboxd";

/// The outcome of what its client did not wait for.
const DISCONNECTED: &str = "disconnected";
const DONE: &str = "ok";

/// What is done, and to what.
pub(crate) struct Deed<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) key: &'a SessionKey,
    pub(crate) action: AuditAction,
    pub(crate) path: Option<&'a str>,
    pub(crate) bytes: Option<u64>,
}

impl AppState {
    /// Makes the call and records it, whatever comes of it.
    pub(crate) async fn audited<T>(
        &self,
        deed: Deed<'_>,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut pending = self.begin_record(deed);
        let result = call.await;
        let outcome = match &result {
            Ok(_) => DONE,
            Err(error) => error.code().as_str(),
        };
        self.record(pending.ended(outcome)).await;
        result
    }

    /// Makes the call and records it only when it is refused: what comes of it
    /// otherwise tells of itself, also when its client does not wait.
    pub(crate) async fn audited_if_refused<T>(
        &self,
        deed: Deed<'_>,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut pending = self.begin_record(deed);
        pending.if_left = false;
        let result = call.await;
        if let Err(error) = &result {
            self.record(pending.ended(error.code().as_str())).await;
        }
        result
    }

    /// Not the client's: it is recorded also if the client does not wait for a full queue.
    async fn record(&self, record: Option<AuditRecord>) {
        if let Some(record) = record {
            let audit = self.audit.clone();
            let _ = tokio::spawn(async move { audit.record(record).await }).await;
        }
    }

    fn begin_record(&self, deed: Deed<'_>) -> Pending {
        Pending {
            if_left: true,
            audit: self.audit.clone(),
            began: Instant::now(),
            record: Some(AuditRecord {
                id: self.audit.new_id(),
                at: self.clock.now(),
                tenant: deed.key.tenant.clone(),
                session: Some(deed.key.session.clone()),
                subject: deed.caller.subject().to_owned(),
                action: deed.action,
                execution: None,
                language: None,
                code_sha256: None,
                code: None,
                path: deed.path.map(str::to_owned),
                outcome: DISCONNECTED.into(),
                exit_code: None,
                bytes: deed.bytes,
                duration_ms: 0,
                request_id: deed.caller.request_id().map(str::to_owned),
            }),
        }
    }
}

/// A record of what goes on.
struct Pending {
    /// Recorded too when its client goes away.
    if_left: bool,
    audit: Audit,
    began: Instant,
    record: Option<AuditRecord>,
}

impl Pending {
    fn ended(&mut self, outcome: &str) -> Option<AuditRecord> {
        let mut record = self.record.take()?;
        outcome.clone_into(&mut record.outcome);
        record.duration_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(record)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.if_left
            && let Some(record) = self.ended(DISCONNECTED)
        {
            let audit = self.audit.clone();
            // Ends with the queue's next place.
            tokio::spawn(async move { audit.record(record).await });
        }
    }
}

/// Tells the metrics and the audit trail what becomes of sessions.
pub struct SessionWatch {
    pub metrics: Arc<Metrics>,
    pub audit: Audit,
    pub clock: Arc<dyn Clock>,
}

impl SessionWatch {
    async fn record(
        &self,
        key: &SessionKey,
        action: AuditAction,
        outcome: &str,
        by: Option<&CreatedBy>,
    ) {
        self.audit
            .record(AuditRecord {
                id: self.audit.new_id(),
                at: self.clock.now(),
                tenant: key.tenant.clone(),
                session: Some(key.session.clone()),
                subject: by.map_or(SERVICE, |by| &by.subject).into(),
                action,
                execution: None,
                language: None,
                code_sha256: None,
                code: None,
                path: None,
                outcome: outcome.into(),
                exit_code: None,
                bytes: None,
                duration_ms: 0,
                request_id: by.and_then(|by| by.request_id.clone()),
            })
            .await;
    }
}

#[async_trait]
impl Observer for SessionWatch {
    fn created(&self, backend: &str, took: Duration) {
        self.metrics.created(backend, took);
    }

    fn destroyed(&self, backend: &str, reason: DestroyReason, lifetime: Duration) {
        self.metrics.destroyed(backend, reason, lifetime);
    }

    fn waited(&self, wait: Duration) {
        self.metrics.waited(wait);
    }

    fn active(&self, backend: &str, count: i64) {
        self.metrics.active(backend, count);
    }

    fn pooled(&self, backend: &str, count: i64) {
        self.metrics.pooled(backend, count);
    }

    async fn session_began(&self, key: &SessionKey, by: Option<&CreatedBy>) {
        self.record(key, AuditAction::SessionCreated, DONE, by)
            .await;
    }

    async fn session_ended(&self, key: &SessionKey, reason: DestroyReason) {
        // Who asked for it is known to the route.
        if reason != DestroyReason::Deleted {
            self.record(key, AuditAction::SessionDeleted, reason.as_str(), None)
                .await;
        }
    }
}
