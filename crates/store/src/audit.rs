//! What was done, by whom and when: the audit trail.

use async_trait::async_trait;
use sandbox_core::{ExecutionId, Result, SessionId, TenantId, Timestamp};

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuditAction {
    Execute,
    Bash,
    Write,
    Edit,
    Delete,
    Move,
    Copy,
    ProcessStarted,
    SessionCreated,
    SessionDeleted,
    SessionPaused,
    SessionResumed,
}

impl AuditAction {
    pub const ALL: [Self; 12] = [
        Self::Execute,
        Self::Bash,
        Self::Write,
        Self::Edit,
        Self::Delete,
        Self::Move,
        Self::Copy,
        Self::ProcessStarted,
        Self::SessionCreated,
        Self::SessionDeleted,
        Self::SessionPaused,
        Self::SessionResumed,
    ];

    /// snake_case, as in the database and in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Bash => "bash",
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Copy => "copy",
            Self::ProcessStarted => "process_started",
            Self::SessionCreated => "session_created",
            Self::SessionDeleted => "session_deleted",
            Self::SessionPaused => "session_paused",
            Self::SessionResumed => "session_resumed",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }
}

/// One thing that was done.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditRecord {
    /// A UUID of version 7, so that records sort by when they were made.
    pub id: String,
    /// When it began.
    pub at: Timestamp,
    pub tenant: TenantId,
    pub session: Option<SessionId>,
    /// `sub` of the token, the id of the API key, or who in the service did it.
    pub subject: String,
    pub action: AuditAction,
    /// Of a run.
    pub execution: Option<ExecutionId>,
    pub language: Option<String>,
    /// SHA-256 of the code or command, in hex.
    pub code_sha256: Option<String>,
    /// Where the operator keeps it.
    pub code: Option<String>,
    /// Of a file.
    pub path: Option<String>,
    /// A run's termination, `ok`, or the code of an error.
    pub outcome: String,
    pub exit_code: Option<i32>,
    /// Of a run what it printed, of a write what was written.
    pub bytes: Option<u64>,
    pub duration_ms: u64,
    pub request_id: Option<String>,
}

/// Which records to read. Those of one tenant, or of all for an admin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditFilter {
    pub tenant: Option<TenantId>,
    pub session: Option<SessionId>,
    /// Empty: all.
    pub actions: Vec<AuditAction>,
    pub execution: Option<ExecutionId>,
    /// From this time on, and before that one.
    pub from: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

/// Keeps the audit trail; each call has a deadline.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Adds records, all or none. One whose id is there already is passed over,
    /// so that a call whose answer was lost can be made again.
    async fn append(&self, records: &[AuditRecord]) -> Result<()>;

    /// Newest first, at most `limit`; `before` is the id of the last one of the page before.
    async fn newest(
        &self,
        filter: &AuditFilter,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<AuditRecord>>;

    /// Oldest first, for export; `after` is the id of the last one that was read.
    async fn oldest(
        &self,
        filter: &AuditFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<AuditRecord>>;

    /// Forgets records that began before this time, at most `limit`; gives how many.
    async fn forget(&self, before: Timestamp, limit: usize) -> Result<u64>;
}

/// Keeps which names of runs are taken; each call has a deadline.
#[async_trait]
pub trait ExecutionStore: Send + Sync {
    /// Takes a name for a run that begins now. `None`: it was free and is the
    /// caller's. Else what the earlier run was asked for: its request's SHA-256 in hex.
    async fn claim(
        &self,
        tenant: &TenantId,
        execution: &ExecutionId,
        request_sha256: &str,
        now: Timestamp,
    ) -> Result<Option<String>>;

    /// Frees a name whose run did not begin.
    async fn release(&self, tenant: &TenantId, execution: &ExecutionId) -> Result<()>;

    /// Frees names that were taken before this time; gives how many.
    async fn forget_claims(&self, before: Timestamp) -> Result<u64>;
}
