//! The audit trail with stores that fail, hang and come back.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod fake;
mod kill;
mod pending;
mod queue;
mod restart;
mod retention;
#[expect(dead_code, reason = "the store's tests use more of it")]
#[path = "../../../store/tests/server/mod.rs"]
mod server;
mod spool;

use sandbox_core::Timestamp;
use sandbox_store::{AuditAction, AuditRecord};

pub fn record(n: u32) -> AuditRecord {
    AuditRecord {
        id: format!("0190-{n:06}"),
        at: Timestamp(i64::from(n)),
        tenant: "t".parse().unwrap(),
        session: Some("s".parse().unwrap()),
        subject: "alice".into(),
        action: AuditAction::Execute,
        execution: Some(format!("run-{n}").parse().unwrap()),
        language: Some("python".into()),
        code_sha256: Some("ab".repeat(32)),
        code: Some("print('ä')\n\"\u{2028}\0🦀".into()),
        path: None,
        outcome: "exited".into(),
        exit_code: Some(-1),
        bytes: Some(u64::MAX),
        duration_ms: 7,
        request_id: None,
    }
}

pub fn records(numbers: impl IntoIterator<Item = u32>) -> Vec<AuditRecord> {
    numbers.into_iter().map(record).collect()
}
