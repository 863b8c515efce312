//! What is known of the artifacts in sandboxes.

use async_trait::async_trait;
use sandbox_core::{ExecutionId, Result, SessionKey, TenantId, Timestamp};

/// A file, figure or table that a run made; a copy of it is in its session's workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct ArtifactRecord {
    /// A UUID of version 7.
    pub id: String,
    pub session: SessionKey,
    pub execution: ExecutionId,
    /// For people, for example `plot.png`.
    pub name: String,
    /// Where the program put it, relative to the workspace.
    pub path: String,
    /// Where the copy is, relative to the workspace.
    pub stored_path: String,
    /// `plot`, `image`, `table`, `report`, `archive` or `file`.
    pub kind: String,
    pub mime_type: String,
    pub size_bytes: u64,
    /// In hex.
    pub sha256: String,
    /// Of a table: JSON with its schema, preview rows and further formats.
    pub table: Option<String>,
    pub created_at: Timestamp,
}

/// Keeps what is known of artifacts; each call has a deadline.
#[async_trait]
pub trait ArtifactStore: Send + Sync {
    /// Adds records, all or none; one whose id is there already is passed over.
    async fn add_artifacts(&self, artifacts: &[ArtifactRecord]) -> Result<()>;

    async fn find_artifact(&self, id: &str) -> Result<Option<ArtifactRecord>>;

    /// Those of a session, newest first, at most `limit`.
    async fn session_artifacts(
        &self,
        session: &SessionKey,
        limit: usize,
    ) -> Result<Vec<ArtifactRecord>>;

    /// What all artifacts of a tenant have together.
    async fn tenant_artifact_bytes(&self, tenant: &TenantId) -> Result<u64>;

    /// Those of a tenant, oldest first, at most `limit`.
    async fn tenant_artifacts(
        &self,
        tenant: &TenantId,
        limit: usize,
    ) -> Result<Vec<ArtifactRecord>>;

    /// Those that were made before this time, oldest first, at most `limit`.
    async fn artifacts_before(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<ArtifactRecord>>;

    async fn remove_artifacts(&self, ids: &[String]) -> Result<()>;

    /// Forgets those of a session that has ended.
    async fn remove_session_artifacts(&self, session: &SessionKey) -> Result<()>;
}
