//! A run in the audit trail.

use std::time::Duration;

use sandbox_core::{Result, Timestamp};
use sandbox_session::RunReport;
use sandbox_store::AuditRecord;

use crate::{Execution, ExecutionRequest, executions::Shared};

/// A record that lacks its end.
pub(crate) struct Begun(AuditRecord);

impl Shared {
    pub(crate) fn audit_of(
        &self,
        execution: &Execution,
        request: &ExecutionRequest,
        at: Timestamp,
    ) -> Begun {
        Begun(AuditRecord {
            id: self.audit.new_id(),
            at,
            tenant: request.tenant.clone(),
            session: request.session.clone(),
            subject: request.subject.clone(),
            action: request.action,
            execution: Some(execution.id().clone()),
            language: Some(request.language.clone()),
            code_sha256: Some(request.code_sha256()),
            code: self.settings.audit_code.then(|| request.code.clone()),
            path: None,
            outcome: String::new(),
            exit_code: None,
            bytes: None,
            duration_ms: 0,
            request_id: request.request_id.clone(),
        })
    }
}

impl Begun {
    pub fn ended(self, result: &Result<RunReport>, took: Duration) -> AuditRecord {
        let mut record = self.0;
        record.duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        match result {
            Ok(report) => {
                let outcome = &report.outcome;
                record.outcome = outcome.termination.as_str().into();
                record.exit_code = Some(outcome.exit_code);
                record.bytes = Some(outcome.stdout.total_bytes() + outcome.stderr.total_bytes());
            }
            Err(error) => record.outcome = error.code().as_str().into(),
        }
        record
    }
}
