//! The registry in an SQLite file, for one service on one machine.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    time::Duration,
};

use async_trait::async_trait;
use sandbox_core::{Result, SessionKey, Timestamp};
use sqlx::{
    SqlitePool,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use crate::{
    SessionRecord, SessionStore, StoreError,
    row::{Row, idle_column, spec_column},
};

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// How long a writer waits for another.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
/// Of each call; a disk that hangs must not hold its callers.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// One that writes, and one for whoever asks meanwhile.
const CONNECTIONS: u32 = 2;

pub struct SqliteStore {
    pool: SqlitePool,
}

impl SqliteStore {
    /// Opens the file, which is made where there is none, and brings its tables up to date.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        make_private(path).map_err(|source| StoreError::Create {
            path: path.to_owned(),
            source,
        })?;
        let options = options()
            .filename(path)
            .create_if_missing(false)
            .journal_mode(SqliteJournalMode::Wal)
            // With WAL, a crash of the machine may cost the last commits, never the file.
            .synchronous(SqliteSynchronous::Normal);
        let pool = pool(CONNECTIONS)
            .connect_with(options)
            .await
            .map_err(|source| StoreError::Open {
                path: path.to_owned(),
                source,
            })?;
        let store = Self { pool };
        store.check(path).await?;
        store.migrate().await?;
        Ok(store)
    }

    /// A registry that ends with the service.
    pub async fn in_memory() -> Result<Self, StoreError> {
        // A second connection would have a database of its own.
        let pool = pool(1)
            .connect_with(options().in_memory(true))
            .await
            .map_err(|source| StoreError::Open {
                path: ":memory:".into(),
                source,
            })?;
        let store = Self { pool };
        store.migrate().await?;
        Ok(store)
    }

    async fn check(&self, path: &Path) -> Result<(), StoreError> {
        let found: String = within("check itself", async {
            sqlx::query_scalar("PRAGMA quick_check(1)")
                .fetch_one(&self.pool)
                .await
        })
        .await?;
        if found == "ok" {
            return Ok(());
        }
        Err(StoreError::Damaged {
            path: path.to_owned(),
            problem: found,
        })
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        tokio::time::timeout(CALL_LIMIT, MIGRATIONS.run(&self.pool))
            .await
            .map_err(|_| StoreError::Slow {
                action: "bring its tables up to date",
            })?
            .map_err(StoreError::Migrate)
    }
}

/// SQLite makes its other files with the mode of this one.
fn make_private(path: &Path) -> io::Result<()> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

fn options() -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .foreign_keys(true)
        .busy_timeout(BUSY_LIMIT)
        .statement_cache_capacity(16)
        // In KiB: the registry is small, and so is the service meant to be.
        .pragma("cache_size", "-256")
}

fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .min_connections(1)
        .max_connections(connections)
        .acquire_timeout(CALL_LIMIT)
        .idle_timeout(None)
        .max_lifetime(None)
}

async fn within<T>(
    action: &'static str,
    call: impl Future<Output = sqlx::Result<T>> + Send,
) -> Result<T, StoreError> {
    tokio::time::timeout(CALL_LIMIT, call)
        .await
        .map_err(|_| StoreError::Slow { action })?
        .map_err(|source| StoreError::Query { action, source })
}

#[async_trait]
impl SessionStore for SqliteStore {
    async fn load(&self) -> Result<Vec<SessionRecord>> {
        let rows: Vec<Row> = within("read the sessions", async {
            sqlx::query_as(
                "SELECT tenant_id, session_id, backend, spec, created_at_ms, last_used_at_ms, \
                 idle_timeout_ms, expires_at_ms FROM sessions ORDER BY tenant_id, session_id",
            )
            .fetch_all(&self.pool)
            .await
        })
        .await?;
        let records: Result<Vec<_>, StoreError> =
            rows.into_iter().map(SessionRecord::try_from).collect();
        Ok(records?)
    }

    async fn put(&self, record: &SessionRecord) -> Result<()> {
        let spec = spec_column(record)?;
        within("write a session", async {
            sqlx::query(
                "INSERT INTO sessions (tenant_id, session_id, backend, spec, created_at_ms, \
                 last_used_at_ms, idle_timeout_ms, expires_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?) \
                 ON CONFLICT (tenant_id, session_id) DO UPDATE SET backend = excluded.backend, \
                 spec = excluded.spec, created_at_ms = excluded.created_at_ms, \
                 last_used_at_ms = excluded.last_used_at_ms, \
                 idle_timeout_ms = excluded.idle_timeout_ms, \
                 expires_at_ms = excluded.expires_at_ms",
            )
            .bind(record.key.tenant.as_str())
            .bind(record.key.session.as_str())
            .bind(&record.backend)
            .bind(spec)
            .bind(record.created_at.0)
            .bind(record.last_used_at.0)
            .bind(idle_column(record))
            .bind(record.expires_at.map(|time| time.0))
            .execute(&self.pool)
            .await
        })
        .await?;
        Ok(())
    }

    async fn touch(&self, used: &[(SessionKey, Timestamp)]) -> Result<()> {
        within("write when sessions were used", async {
            let mut transaction = self.pool.begin().await?;
            for (key, time) in used {
                sqlx::query(
                    "UPDATE sessions SET last_used_at_ms = MAX(last_used_at_ms, ?) \
                     WHERE tenant_id = ? AND session_id = ?",
                )
                .bind(time.0)
                .bind(key.tenant.as_str())
                .bind(key.session.as_str())
                .execute(&mut *transaction)
                .await?;
            }
            transaction.commit().await
        })
        .await?;
        Ok(())
    }

    async fn remove(&self, key: &SessionKey) -> Result<()> {
        within("remove a session", async {
            sqlx::query("DELETE FROM sessions WHERE tenant_id = ? AND session_id = ?")
                .bind(key.tenant.as_str())
                .bind(key.session.as_str())
                .execute(&self.pool)
                .await
        })
        .await?;
        Ok(())
    }

    async fn ping(&self) -> Result<()> {
        within("answer", async {
            sqlx::query("SELECT 1 FROM sessions LIMIT 1")
                .execute(&self.pool)
                .await
        })
        .await?;
        Ok(())
    }
}
