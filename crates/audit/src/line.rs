//! A record as a line of JSON.

use sandbox_core::{ExecutionId, SessionId, TenantId, Timestamp};
use sandbox_store::{AuditAction, AuditRecord};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[derive(Serialize, Deserialize)]
pub struct Line {
    id: String,
    at_ms: Timestamp,
    tenant: TenantId,
    session: Option<SessionId>,
    subject: String,
    #[serde(serialize_with = "write_action", deserialize_with = "read_action")]
    action: AuditAction,
    execution: Option<ExecutionId>,
    language: Option<String>,
    code_sha256: Option<String>,
    code: Option<String>,
    path: Option<String>,
    outcome: String,
    exit_code: Option<i32>,
    bytes: Option<u64>,
    duration_ms: u64,
    request_id: Option<String>,
}

fn write_action<S: Serializer>(action: &AuditAction, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(action.as_str())
}

fn read_action<'de, D: Deserializer<'de>>(from: D) -> Result<AuditAction, D::Error> {
    let name = String::deserialize(from)?;
    AuditAction::from_name(&name).ok_or_else(|| de::Error::custom("the action is not known"))
}

impl From<AuditRecord> for Line {
    fn from(record: AuditRecord) -> Self {
        Self {
            id: record.id,
            at_ms: record.at,
            tenant: record.tenant,
            session: record.session,
            subject: record.subject,
            action: record.action,
            execution: record.execution,
            language: record.language,
            code_sha256: record.code_sha256,
            code: record.code,
            path: record.path,
            outcome: record.outcome,
            exit_code: record.exit_code,
            bytes: record.bytes,
            duration_ms: record.duration_ms,
            request_id: record.request_id,
        }
    }
}

impl From<Line> for AuditRecord {
    fn from(line: Line) -> Self {
        Self {
            id: line.id,
            at: line.at_ms,
            tenant: line.tenant,
            session: line.session,
            subject: line.subject,
            action: line.action,
            execution: line.execution,
            language: line.language,
            code_sha256: line.code_sha256,
            code: line.code,
            path: line.path,
            outcome: line.outcome,
            exit_code: line.exit_code,
            bytes: line.bytes,
            duration_ms: line.duration_ms,
            request_id: line.request_id,
        }
    }
}
