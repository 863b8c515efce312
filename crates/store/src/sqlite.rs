//! The store in an SQLite file, for one service on one machine.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    time::Duration,
};

use sqlx::{
    Connection as _, SqliteConnection, SqlitePool,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use crate::{
    StoreError,
    sql::{Database, Row, SqlStore, Statement, bound},
};

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// How long a writer waits for another.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
/// Of each call; a disk that hangs must not hold its callers.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// One that writes, and one for whoever asks meanwhile.
const CONNECTIONS: u32 = 2;

pub type SqliteStore = SqlStore<Sqlite>;

pub struct Sqlite {
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
        let database = || path.display().to_string();
        let failed = |source| StoreError::Open {
            database: database(),
            source,
        };
        // Two connections that change the journal's mode at the same time do not wait
        // for one another, and the pool may begin with two.
        let alone = SqliteConnection::connect_with(&options).await;
        alone.map_err(failed)?.close().await.map_err(failed)?;
        let pool = pool(CONNECTIONS)
            .connect_with(options)
            .await
            .map_err(failed)?;
        let store = Self::on(Sqlite { pool });
        store.database.check(path).await?;
        store.database.migrate().await?;
        Ok(store)
    }

    /// A store that ends with the service.
    pub async fn in_memory() -> Result<Self, StoreError> {
        // A second connection would have a database of its own.
        let pool = pool(1)
            .connect_with(options().in_memory(true))
            .await
            .map_err(|source| StoreError::Open {
                database: ":memory:".into(),
                source,
            })?;
        let store = Self::on(Sqlite { pool });
        store.database.migrate().await?;
        Ok(store)
    }

    /// Makes what was kept before there were owners this owner's.
    pub(crate) async fn adopt(&self, owner: &str) -> Result<(), StoreError> {
        let update = Statement::new(
            "UPDATE sessions SET owner = $1 WHERE owner = ''",
            [owner.into()],
        );
        self.database
            .execute("name the owner of sessions", vec![update])
            .await?;
        Ok(())
    }

    fn on(database: Sqlite) -> Self {
        Self {
            database,
            owner: String::new(),
        }
    }
}

impl Sqlite {
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

impl Database for Sqlite {
    async fn execute(
        &self,
        action: &'static str,
        statements: Vec<Statement<'_>>,
    ) -> Result<u64, StoreError> {
        within(action, async {
            if let [statement] = statements.as_slice() {
                let query = bound!(sqlx::query(&statement.sql), statement);
                return Ok(query.execute(&self.pool).await?.rows_affected());
            }
            if statements.is_empty() {
                return Ok(0);
            }
            let mut changed = 0;
            let mut transaction = self.pool.begin().await?;
            for statement in &statements {
                let query = bound!(sqlx::query(&statement.sql), statement);
                changed = query.execute(&mut *transaction).await?.rows_affected();
            }
            transaction.commit().await?;
            Ok(changed)
        })
        .await
    }

    async fn fetch<R: Row>(
        &self,
        action: &'static str,
        statement: Statement<'_>,
    ) -> Result<Vec<R>, StoreError> {
        within(action, async {
            let query = sqlx::query_as::<sqlx::Sqlite, R>(&statement.sql);
            bound!(query, statement).fetch_all(&self.pool).await
        })
        .await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        within("answer", async {
            sqlx::query("SELECT 1 FROM sessions LIMIT 1")
                .execute(&self.pool)
                .await
        })
        .await?;
        Ok(())
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
        // In KiB: the database is small, and so is the service meant to be.
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
