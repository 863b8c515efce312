//! What is kept of a session, and what a store does with it.

use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::{Result, SandboxId, SandboxSpec, SessionKey, SessionOptions, Timestamp};

/// One session, whether its sandbox runs or not.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRecord {
    pub key: SessionKey,
    pub sandbox_id: SandboxId,
    /// The name of the backend that has its workspace.
    pub backend: String,
    pub spec: SandboxSpec,
    pub options: SessionOptions,
    pub created_at: Timestamp,
    pub last_used_at: Timestamp,
    pub idle_timeout: Duration,
    /// When it ends however much it is used.
    pub expires_at: Option<Timestamp>,
    /// Since when it is paused.
    pub paused_at: Option<Timestamp>,
}

/// Keeps the records of sessions; each call has a deadline.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Every record, by tenant and session. One that cannot be read is an
    /// error: a session that is not known loses its workspace.
    async fn load(&self) -> Result<Vec<SessionRecord>>;

    /// Keeps a record, in place of one with the same key.
    async fn put(&self, record: &SessionRecord) -> Result<()>;

    /// Sets when sessions were last used, all or none. An earlier time than the
    /// one that is kept changes nothing, and unknown sessions are passed over.
    async fn touch(&self, used: &[(SessionKey, Timestamp)]) -> Result<()>;

    /// Forgets a session and its artifacts; none is fine.
    async fn remove(&self, key: &SessionKey) -> Result<()>;

    /// Whether the store answers.
    async fn ping(&self) -> Result<()>;
}
