//! A record as a row of text and integers.

use std::time::Duration;

use sandbox_core::{SessionKey, Timestamp};

use crate::{SessionRecord, StoreError};

#[derive(sqlx::FromRow)]
pub(crate) struct Row {
    tenant_id: String,
    session_id: String,
    backend: String,
    spec: String,
    created_at_ms: i64,
    last_used_at_ms: i64,
    idle_timeout_ms: i64,
    expires_at_ms: Option<i64>,
}

impl TryFrom<Row> for SessionRecord {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let name = format!("{}/{}", row.tenant_id, row.session_id);
        fn bad<E>(session: &str, column: &'static str) -> impl FnOnce(E) -> StoreError
        where
            E: Into<Box<dyn std::error::Error + Send + Sync>>,
        {
            let session = session.to_owned();
            move |source| StoreError::Record {
                session,
                column,
                source: source.into(),
            }
        }
        let tenant = row.tenant_id.parse().map_err(bad(&name, "tenant_id"))?;
        let session = row.session_id.parse().map_err(bad(&name, "session_id"))?;
        let idle_ms = u64::try_from(row.idle_timeout_ms).map_err(bad(&name, "idle_timeout_ms"))?;
        Ok(Self {
            key: SessionKey::new(tenant, session),
            backend: row.backend,
            spec: serde_json::from_str(&row.spec).map_err(bad(&name, "spec"))?,
            created_at: Timestamp(row.created_at_ms),
            last_used_at: Timestamp(row.last_used_at_ms),
            idle_timeout: Duration::from_millis(idle_ms),
            expires_at: row.expires_at_ms.map(Timestamp),
        })
    }
}

/// The spec as it is kept.
pub(crate) fn spec_column(record: &SessionRecord) -> Result<String, StoreError> {
    serde_json::to_string(&record.spec).map_err(|source| StoreError::Record {
        session: record.key.to_string(),
        column: "spec",
        source: source.into(),
    })
}

/// Durations beyond what the column holds are as good as for ever.
pub(crate) fn idle_column(record: &SessionRecord) -> i64 {
    i64::try_from(record.idle_timeout.as_millis()).unwrap_or(i64::MAX)
}
