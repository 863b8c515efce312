//! Which names of runs are taken.

use async_trait::async_trait;
use sandbox_core::{ExecutionId, Result, TenantId, Timestamp};
use uuid::Uuid;

use super::{Database, SqlStore, Statement};
use crate::ExecutionStore;

#[async_trait]
impl<D: Database> ExecutionStore for SqlStore<D> {
    async fn claim(
        &self,
        tenant: &TenantId,
        execution: &ExecutionId,
        request_sha256: &str,
        now: Timestamp,
    ) -> Result<Option<String>> {
        // By it a claim whose answer was lost finds itself when it is made again.
        let claim = Uuid::new_v4().to_string();
        // The update changes nothing; without one nothing would be returned.
        let insert = Statement::new(
            "INSERT INTO executions (tenant_id, execution_id, request_sha256, claim, \
             claimed_at_ms) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (tenant_id, execution_id) DO UPDATE SET claim = executions.claim \
             RETURNING claim, request_sha256",
            [
                tenant.as_str().into(),
                execution.as_str().into(),
                request_sha256.into(),
                claim.as_str().into(),
                now.into(),
            ],
        );
        let rows: Vec<(String, String)> = self.database.fetch("take a run's name", insert).await?;
        let taken = rows.into_iter().find(|(holder, _)| *holder != claim);
        Ok(taken.map(|(_, request)| request))
    }

    async fn release(&self, tenant: &TenantId, execution: &ExecutionId) -> Result<()> {
        let delete = Statement::new(
            "DELETE FROM executions WHERE tenant_id = $1 AND execution_id = $2",
            [tenant.as_str().into(), execution.as_str().into()],
        );
        self.database
            .execute("free a run's name", vec![delete])
            .await?;
        Ok(())
    }

    async fn forget_claims(&self, before: Timestamp) -> Result<u64> {
        let delete = Statement::new(
            "DELETE FROM executions WHERE claimed_at_ms < $1",
            [before.into()],
        );
        Ok(self
            .database
            .execute("free old names of runs", vec![delete])
            .await?)
    }
}
