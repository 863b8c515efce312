//! The store in PostgreSQL, for several services on several machines.

mod connection;

use std::{str::FromStr as _, time::Duration};

use sqlx::{
    Connection as _, Executor as _, PgConnection, PgPool,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgPoolOptions, PgRow},
};
use tokio::time::{Instant, sleep, timeout_at};

use self::connection::InUse;
use crate::{
    StoreError,
    error::{is_lost, is_undone},
    sql::{Database, Row, SqlStore, Statement},
};

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/postgres");

/// Of each call, with all its tries.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// Of a question whether the server answers.
const PING_LIMIT: Duration = Duration::from_secs(2);
/// Of a start, which waits for the migrations of another service.
const MIGRATION_LIMIT: Duration = Duration::from_secs(60);
const CONNECTIONS: u32 = 8;
/// Between two tries; the second is twice as long, and so on.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A statement whose caller has gone does not hold its connection and its locks.
const SESSION: &str = "SET statement_timeout = '15s'; \
                       SET idle_in_transaction_session_timeout = '15s'";
/// What a URL may say after its `?`. The driver would log any other with its value.
const PARAMETERS: [&str; 18] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

pub type PostgresStore = SqlStore<Postgres>;

pub struct Postgres {
    pool: PgPool,
}

impl PostgresStore {
    /// Connects to the server and brings the tables up to date. A server that
    /// starts at the same time is waited for.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let database = crate::shown(url);
        let opened = |source| StoreError::Open { database, source };
        let options = match options(url) {
            Ok(options) => options,
            Err(source) => return Err(opened(source)),
        };
        let deadline = Instant::now() + CALL_LIMIT;
        let connection = match connect(&options, deadline).await {
            Ok(connection) => connection,
            Err(source) => return Err(opened(source)),
        };
        migrate(connection).await?;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(CALL_LIMIT)
            .after_connect(|connection, _| {
                Box::pin(async move {
                    connection.execute(SESSION).await?;
                    Ok(())
                })
            })
            .connect_lazy_with(options);
        Ok(Self {
            database: Postgres { pool },
            owner: String::new(),
        })
    }
}

fn options(url: &str) -> sqlx::Result<PgConnectOptions> {
    let parameters = url.split_once('?').map_or("", |(_, rest)| rest);
    for pair in parameters.split('&').filter(|pair| !pair.is_empty()) {
        let key = pair.split('=').next().unwrap_or_default();
        if !(PARAMETERS.contains(&key) || key.starts_with("options[")) {
            let known = PARAMETERS.join(", ");
            let problem = format!("a parameter of the URL is none of {known}");
            return Err(sqlx::Error::Configuration(problem.into()));
        }
    }
    PgConnectOptions::from_str(url)
}

/// Connects, in several tries while the server starts.
async fn connect(options: &PgConnectOptions, deadline: Instant) -> sqlx::Result<PgConnection> {
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match timeout_at(deadline, PgConnection::connect_with(options)).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => error,
            Err(_) => return Err(sqlx::Error::PoolTimedOut),
        };
        if !is_lost(&error) || Instant::now() + pause >= deadline {
            return Err(error);
        }
        sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// Runs under an advisory lock of the server, so that of services that start
/// together one does the work. The connection is this call's own: whatever
/// becomes of it, the lock goes with it.
async fn migrate(mut connection: PgConnection) -> Result<(), StoreError> {
    let deadline = Instant::now() + MIGRATION_LIMIT;
    timeout_at(deadline, MIGRATIONS.run_direct(&mut connection))
        .await
        .map_err(|_| StoreError::Slow {
            action: "bring its tables up to date",
        })?
        .map_err(StoreError::Migrate)?;
    // It goes in any case.
    let _ = timeout_at(deadline, connection.close()).await;
    Ok(())
}

/// What a call gave: rows, or how many were changed.
#[derive(Default)]
struct Done {
    rows: Vec<PgRow>,
    changed: u64,
}

impl Postgres {
    /// Tries again while the server restarts, as far as that cannot do a thing twice.
    async fn call(
        &self,
        action: &'static str,
        limit: Duration,
        statements: &[Statement<'_>],
    ) -> Result<Done, StoreError> {
        if statements.is_empty() {
            return Ok(Done::default());
        }
        let deadline = Instant::now() + limit;
        let repeatable = statements.iter().all(|statement| statement.repeatable);
        let mut pause = FIRST_PAUSE;
        loop {
            let (source, again) = match timeout_at(deadline, self.pool.acquire()).await {
                Err(_) => return Err(StoreError::Slow { action }),
                Ok(Err(error)) => {
                    let again = is_lost(&error);
                    (error, again)
                }
                Ok(Ok(connection)) => {
                    let mut connection = InUse::new(connection);
                    match timeout_at(deadline, connection.run(statements)).await {
                        Err(_) => return Err(StoreError::Slow { action }),
                        Ok(Ok(done)) => return Ok(done),
                        Ok(Err(error)) => {
                            let again = is_undone(&error) || (repeatable && is_lost(&error));
                            (error, again)
                        }
                    }
                }
            };
            if !again || Instant::now() + pause >= deadline {
                return Err(StoreError::Query { action, source });
            }
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }
}

impl Database for Postgres {
    async fn execute(
        &self,
        action: &'static str,
        statements: Vec<Statement<'_>>,
    ) -> Result<u64, StoreError> {
        let done = self.call(action, CALL_LIMIT, &statements).await?;
        Ok(done.changed)
    }

    async fn fetch<R: Row>(
        &self,
        action: &'static str,
        statement: Statement<'_>,
    ) -> Result<Vec<R>, StoreError> {
        let done = self.call(action, CALL_LIMIT, &[statement]).await?;
        let rows: sqlx::Result<Vec<R>> = done.rows.iter().map(R::from_row).collect();
        rows.map_err(|source| StoreError::Query { action, source })
    }

    async fn ping(&self) -> Result<(), StoreError> {
        let select = Statement::new("SELECT 1 FROM sessions LIMIT 1", []);
        self.call("answer", PING_LIMIT, &[select]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_an_unknown_parameter_is_refused_unseen() {
        let error = options("postgres://h/d?sslmode=require&sslpassword=secret").unwrap_err();
        let text = format!("{error:?} {error}");
        assert!(text.contains("sslmode"), "{text}");
        assert!(!text.contains("secret"), "{text}");
        options("postgres://u:p@h:1/d?sslmode=verify-full&sslrootcert=/x&options[a]=b").unwrap();
    }

    #[test]
    fn a_bad_url_is_refused_without_its_password() {
        for url in [
            "postgres://u:secret@h:port/d",
            "postgres://u:sec#ret@h/d",
            "postgres://u:secret@[h/d",
            "postgres://u:secret@h/d?sslmode=secret2&password=secret",
        ] {
            let Err(error) = options(url) else { continue };
            assert!(
                !format!("{error:?} {error}").contains("secret@"),
                "{error:?}"
            );
        }
    }
}
