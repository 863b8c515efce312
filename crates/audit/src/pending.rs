//! The record of what goes on, which is not complete before that ends.

use std::time::Instant;

use sandbox_core::SessionKey;
use sandbox_store::{AuditAction, AuditRecord};

use crate::Audit;

/// The outcome of what was done as it was asked.
pub const DONE: &str = "ok";
/// The outcome of what its client did not wait for.
pub const DISCONNECTED: &str = "disconnected";

/// A record that lacks its end. Dropped without one, it is recorded as
/// [`DISCONNECTED`].
pub struct Pending {
    audit: Audit,
    began: Instant,
    if_left: bool,
    record: Option<AuditRecord>,
}

impl Audit {
    /// A record of what `subject` begins now.
    pub fn begin(
        &self,
        key: &SessionKey,
        subject: impl Into<String>,
        action: AuditAction,
    ) -> Pending {
        Pending {
            audit: self.clone(),
            began: Instant::now(),
            if_left: true,
            record: Some(AuditRecord {
                id: self.new_id(),
                at: self.now(),
                tenant: key.tenant.clone(),
                session: Some(key.session.clone()),
                subject: subject.into(),
                action,
                execution: None,
                language: None,
                code_sha256: None,
                code: None,
                path: None,
                outcome: DISCONNECTED.into(),
                exit_code: None,
                bytes: None,
                duration_ms: 0,
                request_id: None,
            }),
        }
    }
}

impl Pending {
    /// Adds what is known besides.
    #[must_use]
    pub fn with(mut self, add: impl FnOnce(&mut AuditRecord)) -> Self {
        self.record.as_mut().map(add);
        self
    }

    /// Nothing is recorded if it is dropped.
    #[must_use]
    pub fn only_if_ended(mut self) -> Self {
        self.if_left = false;
        self
    }

    /// Records it with what came of it, also for a caller who does not wait for a
    /// full queue.
    pub async fn end(mut self, outcome: &str) {
        if let Some(recording) = self.recording(outcome) {
            let _ = tokio::spawn(recording).await;
        }
    }

    fn recording(&mut self, outcome: &str) -> Option<impl Future<Output = ()> + Send + 'static> {
        let mut record = self.record.take()?;
        outcome.clone_into(&mut record.outcome);
        record.duration_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let audit = self.audit.clone();
        Some(async move { audit.record(record).await })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.if_left
            && let Some(recording) = self.recording(DISCONNECTED)
        {
            // Ends with the queue's next place.
            tokio::spawn(recording);
        }
    }
}
