//! API keys.

use async_trait::async_trait;
use sandbox_core::{Result, TenantId, Timestamp};

use super::{Database, SqlStore, Statement, bad};
use crate::{KeyRecord, KeyStore, StoreError};

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    tenant_id: String,
    admin: bool,
    name: String,
    secret_sha256: Vec<u8>,
    created_at_ms: i64,
    revoked_at_ms: Option<i64>,
}

impl TryFrom<Row> for KeyRecord {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let name = format!("key `{}`", row.id);
        Ok(Self {
            tenant: row.tenant_id.parse().map_err(bad(&name, "tenant_id"))?,
            admin: row.admin,
            name: row.name,
            secret_sha256: row
                .secret_sha256
                .try_into()
                .map_err(|_| bad(&name, "secret_sha256")("it has not 32 bytes"))?,
            created_at: Timestamp(row.created_at_ms),
            revoked_at: row.revoked_at_ms.map(Timestamp),
            id: row.id,
        })
    }
}

impl<D: Database> SqlStore<D> {
    async fn keys(&self, select: Statement<'_>) -> Result<Vec<KeyRecord>> {
        let rows: Vec<Row> = self.database.fetch("read API keys", select).await?;
        let records: Result<Vec<_>, StoreError> =
            rows.into_iter().map(KeyRecord::try_from).collect();
        Ok(records?)
    }
}

#[async_trait]
impl<D: Database> KeyStore for SqlStore<D> {
    async fn add_key(&self, key: &KeyRecord) -> Result<()> {
        let insert = Statement::new(
            "INSERT INTO api_keys (id, tenant_id, admin, name, secret_sha256, created_at_ms, \
             revoked_at_ms) VALUES ($1, $2, $3, $4, $5, $6, $7)",
            [
                key.id.as_str().into(),
                key.tenant.as_str().into(),
                key.admin.into(),
                key.name.as_str().into(),
                key.secret_sha256.as_slice().into(),
                key.created_at.into(),
                key.revoked_at.into(),
            ],
        );
        self.database
            .execute("keep an API key", vec![insert.once()])
            .await?;
        Ok(())
    }

    async fn find_key(&self, id: &str) -> Result<Option<KeyRecord>> {
        let select = Statement::new(
            "SELECT id, tenant_id, admin, name, secret_sha256, created_at_ms, revoked_at_ms \
             FROM api_keys WHERE id = $1",
            [id.into()],
        );
        Ok(self.keys(select).await?.pop())
    }

    async fn list_keys(&self, tenant: Option<&TenantId>) -> Result<Vec<KeyRecord>> {
        let select = Statement::new(
            "SELECT id, tenant_id, admin, name, secret_sha256, created_at_ms, revoked_at_ms \
             FROM api_keys WHERE $1 IS NULL OR tenant_id = $1 ORDER BY created_at_ms, id",
            [tenant.map(TenantId::as_str).into()],
        );
        self.keys(select).await
    }

    async fn revoke_key(&self, id: &str, now: Timestamp) -> Result<bool> {
        let update = Statement::new(
            "UPDATE api_keys SET revoked_at_ms = $1 WHERE id = $2 AND revoked_at_ms IS NULL",
            [now.into(), id.into()],
        );
        let changed = self
            .database
            .execute("revoke an API key", vec![update.once()])
            .await?;
        Ok(changed > 0)
    }
}
