//! The audit trail.

use async_trait::async_trait;
use sandbox_core::{Result, Timestamp};

use super::{Database, SqlStore, Statement, bad, unsigned};
use crate::{AuditAction, AuditFilter, AuditRecord, AuditStore, StoreError};

const COLUMNS: &str = "id, at_ms, tenant_id, session_id, subject, action, execution_id, language, \
                       code_sha256, code, path, outcome, exit_code, bytes, duration_ms, request_id";
/// Records of one INSERT: databases bound the values of a statement.
const ROWS_PER_INSERT: usize = 256;

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    at_ms: i64,
    tenant_id: String,
    session_id: Option<String>,
    subject: String,
    action: String,
    execution_id: Option<String>,
    language: Option<String>,
    code_sha256: Option<String>,
    code: Option<String>,
    path: Option<String>,
    outcome: String,
    exit_code: Option<i64>,
    bytes: Option<i64>,
    duration_ms: i64,
    request_id: Option<String>,
}

impl TryFrom<Row> for AuditRecord {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let name = format!("audit `{}`", row.id);
        let parse_session = |text: String| text.parse().map_err(bad(&name, "session_id"));
        let parse_execution = |text: String| text.parse().map_err(bad(&name, "execution_id"));
        let parse_exit = |code: i64| i32::try_from(code).map_err(bad(&name, "exit_code"));
        Ok(Self {
            at: Timestamp(row.at_ms),
            tenant: row.tenant_id.parse().map_err(bad(&name, "tenant_id"))?,
            session: row.session_id.map(parse_session).transpose()?,
            subject: row.subject,
            action: AuditAction::from_name(&row.action)
                .ok_or_else(|| bad(&name, "action")("it is not known"))?,
            execution: row.execution_id.map(parse_execution).transpose()?,
            language: row.language,
            code_sha256: row.code_sha256,
            code: row.code,
            path: row.path,
            outcome: row.outcome,
            exit_code: row.exit_code.map(parse_exit).transpose()?,
            bytes: row.bytes.map(unsigned),
            duration_ms: unsigned(row.duration_ms),
            request_id: row.request_id,
            id: row.id,
        })
    }
}

fn insert<'a>(records: &[&'a AuditRecord]) -> Statement<'a> {
    let mut insert = Statement::begin("INSERT INTO audit (");
    insert.sql(COLUMNS);
    insert.sql(") VALUES ");
    for record in records {
        insert.row([
            record.id.as_str().into(),
            record.at.into(),
            record.tenant.as_str().into(),
            record.session.as_ref().map(|id| id.as_str()).into(),
            record.subject.as_str().into(),
            record.action.as_str().into(),
            record.execution.as_ref().map(|id| id.as_str()).into(),
            record.language.as_deref().into(),
            record.code_sha256.as_deref().into(),
            record.code.as_deref().into(),
            record.path.as_deref().into(),
            record.outcome.as_str().into(),
            record.exit_code.into(),
            record.bytes.into(),
            record.duration_ms.into(),
            record.request_id.as_deref().into(),
        ]);
    }
    insert.sql(" ON CONFLICT (id) DO NOTHING");
    insert
}

/// Which way a trail is read.
#[derive(Clone, Copy)]
enum Order {
    Newest,
    Oldest,
}

fn select<'a>(
    filter: &'a AuditFilter,
    order: Order,
    cursor: Option<&'a str>,
    limit: usize,
) -> Statement<'a> {
    let mut select = Statement::begin("SELECT ");
    select.sql(COLUMNS);
    select.sql(" FROM audit WHERE 1 = 1");
    let (beyond, sorted) = match order {
        Order::Newest => (" AND id < ", " ORDER BY id DESC LIMIT "),
        Order::Oldest => (" AND id > ", " ORDER BY id LIMIT "),
    };
    let texts = [
        (
            " AND tenant_id = ",
            filter.tenant.as_ref().map(|id| id.as_str()),
        ),
        (
            " AND session_id = ",
            filter.session.as_ref().map(|id| id.as_str()),
        ),
        (
            " AND execution_id = ",
            filter.execution.as_ref().map(|id| id.as_str()),
        ),
        (beyond, cursor),
    ];
    for (condition, text) in texts {
        if let Some(text) = text {
            select.sql(condition);
            select.value(text);
        }
    }
    for (condition, time) in [
        (" AND at_ms >= ", filter.from),
        (" AND at_ms < ", filter.until),
    ] {
        if let Some(time) = time {
            select.sql(condition);
            select.value(time);
        }
    }
    if !filter.actions.is_empty() {
        let mut separator = " AND action IN (";
        for action in &filter.actions {
            select.sql(separator);
            select.value(action.as_str());
            separator = ", ";
        }
        select.sql(")");
    }
    select.sql(sorted);
    select.value(limit);
    select
}

impl<D: Database> SqlStore<D> {
    async fn read(&self, select: Statement<'_>) -> Result<Vec<AuditRecord>> {
        let rows: Vec<Row> = self.database.fetch("read the audit trail", select).await?;
        let records: Result<Vec<_>, StoreError> =
            rows.into_iter().map(AuditRecord::try_from).collect();
        Ok(records?)
    }
}

#[async_trait]
impl<D: Database> AuditStore for SqlStore<D> {
    async fn append(&self, records: &[AuditRecord]) -> Result<()> {
        // In one order for all writers: those that have records in common wait for
        // one another, but never in a circle.
        let mut in_order: Vec<&AuditRecord> = records.iter().collect();
        in_order.sort_by(|a, b| a.id.cmp(&b.id));
        let inserts = in_order.chunks(ROWS_PER_INSERT).map(insert).collect();
        self.database
            .execute("write the audit trail", inserts)
            .await?;
        Ok(())
    }

    async fn newest(
        &self,
        filter: &AuditFilter,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<AuditRecord>> {
        self.read(select(filter, Order::Newest, before, limit))
            .await
    }

    async fn oldest(
        &self,
        filter: &AuditFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<AuditRecord>> {
        self.read(select(filter, Order::Oldest, after, limit)).await
    }

    async fn forget(&self, before: Timestamp, limit: usize) -> Result<u64> {
        let delete = Statement::new(
            "DELETE FROM audit WHERE id IN \
             (SELECT id FROM audit WHERE at_ms < $1 ORDER BY at_ms LIMIT $2)",
            [before.into(), limit.into()],
        );
        Ok(self
            .database
            .execute("forget old audit records", vec![delete])
            .await?)
    }
}
