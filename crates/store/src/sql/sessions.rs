//! The registry of sessions.

use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::{Result, SessionKey, Timestamp};

use super::{Database, SqlStore, Statement, bad};
use crate::{SessionRecord, SessionStore, StoreError};

#[derive(sqlx::FromRow)]
struct Row {
    tenant_id: String,
    session_id: String,
    sandbox_id: Option<String>,
    backend: String,
    spec: String,
    options: String,
    created_at_ms: i64,
    last_used_at_ms: i64,
    idle_timeout_ms: i64,
    expires_at_ms: Option<i64>,
    paused_at_ms: Option<i64>,
}

impl TryFrom<Row> for SessionRecord {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let name = format!("session `{}/{}`", row.tenant_id, row.session_id);
        let tenant = row.tenant_id.parse().map_err(bad(&name, "tenant_id"))?;
        let session = row.session_id.parse().map_err(bad(&name, "session_id"))?;
        let idle_ms = u64::try_from(row.idle_timeout_ms).map_err(bad(&name, "idle_timeout_ms"))?;
        let key = SessionKey::new(tenant, session);
        // Rows of earlier versions have none.
        let sandbox_id = match row.sandbox_id {
            Some(id) => id.parse().map_err(bad(&name, "sandbox_id"))?,
            None => key.sandbox_id(),
        };
        Ok(Self {
            key,
            sandbox_id,
            backend: row.backend,
            spec: serde_json::from_str(&row.spec).map_err(bad(&name, "spec"))?,
            options: serde_json::from_str(&row.options).map_err(bad(&name, "options"))?,
            created_at: Timestamp(row.created_at_ms),
            last_used_at: Timestamp(row.last_used_at_ms),
            idle_timeout: Duration::from_millis(idle_ms),
            expires_at: row.expires_at_ms.map(Timestamp),
            paused_at: row.paused_at_ms.map(Timestamp),
        })
    }
}

#[async_trait]
impl<D: Database> SessionStore for SqlStore<D> {
    async fn load(&self) -> Result<Vec<SessionRecord>> {
        let select = Statement::new(
            "SELECT tenant_id, session_id, sandbox_id, backend, spec, options, created_at_ms, \
             last_used_at_ms, idle_timeout_ms, expires_at_ms, paused_at_ms FROM sessions \
             WHERE owner = $1 ORDER BY tenant_id, session_id",
            [self.owner.as_str().into()],
        );
        let rows: Vec<Row> = self.database.fetch("read the sessions", select).await?;
        let records: Result<Vec<_>, StoreError> =
            rows.into_iter().map(SessionRecord::try_from).collect();
        Ok(records?)
    }

    async fn put(&self, record: &SessionRecord) -> Result<()> {
        let spec = serde_json::to_string(&record.spec)
            .map_err(bad(&format!("session `{}`", record.key), "spec"))?;
        let options = serde_json::to_string(&record.options)
            .map_err(bad(&format!("session `{}`", record.key), "options"))?;
        // Durations beyond what the column holds are as good as for ever.
        let idle_ms = u64::try_from(record.idle_timeout.as_millis()).unwrap_or(u64::MAX);
        let insert = Statement::new(
            "INSERT INTO sessions (owner, tenant_id, session_id, backend, spec, options, \
             created_at_ms, last_used_at_ms, idle_timeout_ms, expires_at_ms, sandbox_id, \
             paused_at_ms) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) \
             ON CONFLICT (owner, tenant_id, session_id) DO UPDATE SET \
             backend = excluded.backend, spec = excluded.spec, \
             options = excluded.options, \
             created_at_ms = excluded.created_at_ms, \
             last_used_at_ms = excluded.last_used_at_ms, \
             idle_timeout_ms = excluded.idle_timeout_ms, \
             expires_at_ms = excluded.expires_at_ms, \
             sandbox_id = excluded.sandbox_id, \
             paused_at_ms = excluded.paused_at_ms",
            [
                self.owner.as_str().into(),
                record.key.tenant.as_str().into(),
                record.key.session.as_str().into(),
                record.backend.as_str().into(),
                spec.as_str().into(),
                options.as_str().into(),
                record.created_at.into(),
                record.last_used_at.into(),
                idle_ms.into(),
                record.expires_at.into(),
                record.sandbox_id.as_str().into(),
                record.paused_at.into(),
            ],
        );
        self.database
            .execute("write a session", vec![insert])
            .await?;
        Ok(())
    }

    async fn touch(&self, used: &[(SessionKey, Timestamp)]) -> Result<()> {
        let updates = used.iter().map(|(key, time)| {
            Statement::new(
                "UPDATE sessions SET last_used_at_ms = $1 WHERE owner = $2 AND tenant_id = $3 \
                 AND session_id = $4 AND last_used_at_ms < $1",
                [
                    (*time).into(),
                    self.owner.as_str().into(),
                    key.tenant.as_str().into(),
                    key.session.as_str().into(),
                ],
            )
        });
        self.database
            .execute("write when sessions were used", updates.collect())
            .await?;
        Ok(())
    }

    async fn remove(&self, key: &SessionKey) -> Result<()> {
        let delete = Statement::new(
            "DELETE FROM sessions WHERE owner = $1 AND tenant_id = $2 AND session_id = $3",
            [
                self.owner.as_str().into(),
                key.tenant.as_str().into(),
                key.session.as_str().into(),
            ],
        );
        let artifacts = self.delete_session_artifacts(key);
        self.database
            .execute("remove a session", vec![artifacts, delete])
            .await?;
        Ok(())
    }

    async fn ping(&self) -> Result<()> {
        Ok(self.database.ping().await?)
    }
}
