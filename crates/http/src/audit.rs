//! What is done to files and sessions, for the audit trail and the metrics; runs
//! tell of themselves.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use sandbox_audit::{Audit, DONE, Pending};
use sandbox_core::{Result, SessionKey};
use sandbox_session::{CreatedBy, DestroyReason, Observer};
use sandbox_store::AuditAction;

use crate::{AppState, Metrics, caller::Caller};

/// Who did what nobody asked for: a session begins with its first call and ends
/// when it is idle.
const SERVICE: &str = "sandboxd";

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
        let pending = self.begin_record(deed);
        let result = call.await;
        let outcome = match &result {
            Ok(_) => DONE,
            Err(error) => error.code().as_str(),
        };
        pending.end(outcome).await;
        result
    }

    /// Makes the call and records it only when it is refused: what comes of it
    /// otherwise tells of itself, also when its client does not wait.
    pub(crate) async fn audited_if_refused<T>(
        &self,
        deed: Deed<'_>,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let pending = self.begin_record(deed).only_if_ended();
        let result = call.await;
        if let Err(error) = &result {
            pending.end(error.code().as_str()).await;
        }
        result
    }

    fn begin_record(&self, deed: Deed<'_>) -> Pending {
        self.audit
            .begin(deed.key, deed.caller.subject(), deed.action)
            .with(|record| {
                record.path = deed.path.map(str::to_owned);
                record.bytes = deed.bytes;
                record.request_id = deed.caller.request_id().map(str::to_owned);
            })
    }
}

/// Tells the metrics and the audit trail what becomes of sessions.
pub struct SessionWatch {
    pub metrics: Arc<Metrics>,
    pub audit: Audit,
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
            .begin(key, by.map_or(SERVICE, |by| &by.subject), action)
            .with(|record| record.request_id = by.and_then(|by| by.request_id.clone()))
            .end(outcome)
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
