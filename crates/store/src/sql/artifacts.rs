//! What is known of artifacts.

use async_trait::async_trait;
use sandbox_core::{Result, SessionKey, TenantId, Timestamp};

use super::{Database, SqlStore, Statement, bad, unsigned};
use crate::{ArtifactRecord, ArtifactStore, StoreError};

const COLUMNS: &str = "id, owner, tenant_id, session_id, execution_id, name, path, stored_path, \
                       kind, mime_type, size_bytes, sha256, table_json, created_at_ms";
/// Records of one INSERT and ids of one DELETE: databases bound the values of a statement.
const ROWS_PER_STATEMENT: usize = 256;

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    tenant_id: String,
    session_id: String,
    execution_id: String,
    name: String,
    path: String,
    stored_path: String,
    kind: String,
    mime_type: String,
    size_bytes: i64,
    sha256: String,
    table_json: Option<String>,
    created_at_ms: i64,
}

impl TryFrom<Row> for ArtifactRecord {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let name = format!("artifact `{}`", row.id);
        Ok(Self {
            session: SessionKey::new(
                row.tenant_id.parse().map_err(bad(&name, "tenant_id"))?,
                row.session_id.parse().map_err(bad(&name, "session_id"))?,
            ),
            execution: row
                .execution_id
                .parse()
                .map_err(bad(&name, "execution_id"))?,
            name: row.name,
            path: row.path,
            stored_path: row.stored_path,
            kind: row.kind,
            mime_type: row.mime_type,
            size_bytes: unsigned(row.size_bytes),
            sha256: row.sha256,
            table: row.table_json,
            created_at: Timestamp(row.created_at_ms),
            id: row.id,
        })
    }
}

impl<D: Database> SqlStore<D> {
    fn insert_artifacts<'a>(&'a self, artifacts: &'a [ArtifactRecord]) -> Statement<'a> {
        let mut insert = Statement::begin("INSERT INTO artifacts (");
        insert.sql(COLUMNS);
        insert.sql(") VALUES ");
        for artifact in artifacts {
            insert.row([
                artifact.id.as_str().into(),
                self.owner.as_str().into(),
                artifact.session.tenant.as_str().into(),
                artifact.session.session.as_str().into(),
                artifact.execution.as_str().into(),
                artifact.name.as_str().into(),
                artifact.path.as_str().into(),
                artifact.stored_path.as_str().into(),
                artifact.kind.as_str().into(),
                artifact.mime_type.as_str().into(),
                artifact.size_bytes.into(),
                artifact.sha256.as_str().into(),
                artifact.table.as_deref().into(),
                artifact.created_at.into(),
            ]);
        }
        insert.sql(" ON CONFLICT (id) DO NOTHING");
        insert
    }

    /// Of this store's owner, those that a condition holds for.
    fn delete_artifacts(&self) -> Statement<'_> {
        let mut delete = Statement::begin("DELETE FROM artifacts WHERE owner = ");
        delete.value(self.owner.as_str());
        delete
    }

    pub(super) fn delete_session_artifacts<'a>(&'a self, session: &'a SessionKey) -> Statement<'a> {
        let mut delete = self.delete_artifacts();
        delete.sql(" AND tenant_id = ");
        delete.value(session.tenant.as_str());
        delete.sql(" AND session_id = ");
        delete.value(session.session.as_str());
        delete
    }

    fn select_artifacts(&self) -> Statement<'_> {
        let mut select = Statement::begin("SELECT ");
        select.sql(COLUMNS);
        select.sql(" FROM artifacts WHERE owner = ");
        select.value(self.owner.as_str());
        select
    }

    async fn artifacts(&self, select: Statement<'_>) -> Result<Vec<ArtifactRecord>> {
        let rows: Vec<Row> = self.database.fetch("read artifacts", select).await?;
        let records: Result<Vec<_>, StoreError> =
            rows.into_iter().map(ArtifactRecord::try_from).collect();
        Ok(records?)
    }
}

#[async_trait]
impl<D: Database> ArtifactStore for SqlStore<D> {
    async fn add_artifacts(&self, artifacts: &[ArtifactRecord]) -> Result<()> {
        let inserts = artifacts
            .chunks(ROWS_PER_STATEMENT)
            .map(|chunk| self.insert_artifacts(chunk))
            .collect();
        self.database.execute("write artifacts", inserts).await?;
        Ok(())
    }

    async fn find_artifact(&self, id: &str) -> Result<Option<ArtifactRecord>> {
        let mut select = self.select_artifacts();
        select.sql(" AND id = ");
        select.value(id);
        Ok(self.artifacts(select).await?.pop())
    }

    async fn session_artifacts(
        &self,
        session: &SessionKey,
        limit: usize,
    ) -> Result<Vec<ArtifactRecord>> {
        let mut select = self.select_artifacts();
        select.sql(" AND tenant_id = ");
        select.value(session.tenant.as_str());
        select.sql(" AND session_id = ");
        select.value(session.session.as_str());
        select.sql(" ORDER BY created_at_ms DESC, id DESC LIMIT ");
        select.value(limit);
        self.artifacts(select).await
    }

    async fn tenant_artifact_bytes(&self, tenant: &TenantId) -> Result<u64> {
        // A sum of integers may be more than one holds, which is an error.
        let select = Statement::new(
            "SELECT COALESCE(SUM(CAST(size_bytes AS DOUBLE PRECISION)), 0.0) \
             FROM artifacts WHERE tenant_id = $1",
            [tenant.as_str().into()],
        );
        let rows: Vec<(f64,)> = self.database.fetch("add up artifacts", select).await?;
        Ok(rows.first().map_or(0, |(sum,)| *sum as u64))
    }

    async fn tenant_artifacts(
        &self,
        tenant: &TenantId,
        limit: usize,
    ) -> Result<Vec<ArtifactRecord>> {
        let mut select = self.select_artifacts();
        select.sql(" AND tenant_id = ");
        select.value(tenant.as_str());
        select.sql(" ORDER BY created_at_ms, id LIMIT ");
        select.value(limit);
        self.artifacts(select).await
    }

    async fn artifacts_before(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<ArtifactRecord>> {
        let mut select = self.select_artifacts();
        select.sql(" AND created_at_ms < ");
        select.value(before);
        select.sql(" ORDER BY created_at_ms, id LIMIT ");
        select.value(limit);
        self.artifacts(select).await
    }

    async fn remove_artifacts(&self, ids: &[String]) -> Result<()> {
        let deletes = ids.chunks(ROWS_PER_STATEMENT).map(|chunk| {
            let mut delete = self.delete_artifacts();
            let mut separator = " AND id IN (";
            for id in chunk {
                delete.sql(separator);
                delete.value(id.as_str());
                separator = ", ";
            }
            delete.sql(")");
            delete
        });
        self.database
            .execute("forget artifacts", deletes.collect())
            .await?;
        Ok(())
    }

    async fn remove_session_artifacts(&self, session: &SessionKey) -> Result<()> {
        let delete = self.delete_session_artifacts(session);
        self.database
            .execute("forget a session's artifacts", vec![delete])
            .await?;
        Ok(())
    }
}
