//! API keys: what is kept of them, which is not the key.

use async_trait::async_trait;
use sandbox_core::{Result, TenantId, Timestamp};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Public; names the key in lists, logs and the audit trail.
    pub id: String,
    pub tenant: TenantId,
    pub admin: bool,
    /// What the operator calls it; may be empty.
    pub name: String,
    /// SHA-256 of the secret part, which is random and long.
    pub secret_sha256: [u8; 32],
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

/// Keeps API keys; each call has a deadline.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Keeps a new key; one with the same id is an error.
    async fn add_key(&self, key: &KeyRecord) -> Result<()>;

    /// The key with this id, revoked or not.
    async fn find_key(&self, id: &str) -> Result<Option<KeyRecord>>;

    /// Of one tenant, or of all; by when they were made.
    async fn list_keys(&self, tenant: Option<&TenantId>) -> Result<Vec<KeyRecord>>;

    /// False if there is none with this id, or it was revoked before.
    async fn revoke_key(&self, id: &str, now: Timestamp) -> Result<bool>;
}
