//! What goes wrong in a store, and what of it the service's callers learn.

use std::{io, path::PathBuf};

use sandbox_core::{Error, ErrorCode};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("failed to make the database file `{}`", path.display())]
    Create { path: PathBuf, source: io::Error },

    #[error(
        "a database is `sqlite:PATH`, `sqlite::memory:`, `postgres://USER:PASSWORD@HOST/NAME` \
         or the same with `postgresql://`"
    )]
    Url,

    #[error("failed to open the database `{database}`")]
    Open {
        database: String,
        source: sqlx::Error,
    },

    #[error("the database `{}` is damaged: {problem}", path.display())]
    Damaged { path: PathBuf, problem: String },

    #[error("failed to bring the tables of the database up to date")]
    Migrate(#[source] sqlx::migrate::MigrateError),

    #[error("failed to {action} in the database")]
    Query {
        action: &'static str,
        source: sqlx::Error,
    },

    #[error("the database did not {action} in time")]
    Slow { action: &'static str },

    #[error("the record of {record} has a bad {column}")]
    Record {
        record: String,
        column: &'static str,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    fn is_slow(&self) -> bool {
        match self {
            Self::Slow { .. } => true,
            Self::Query { source, .. } => {
                matches!(source, sqlx::Error::PoolTimedOut) || is_lost(source)
            }
            _ => false,
        }
    }
}

/// Whether a connection broke, or the server is going down or coming up.
pub(crate) fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        // A server that stops may close a connection before it has said a word, which
        // the driver takes for a wrong one.
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            // https://www.postgresql.org/docs/current/errcodes-appendix.html
            // Beside all of connection_exception: too_many_connections, three kinds of
            // shutdown and start, and a primary that has become a standby.
            code.starts_with("08")
                || ["53300", "57P01", "57P02", "57P03", "25006"].contains(&code.as_ref())
        }),
        _ => false,
    }
}

/// Whether the server undid the whole call because it met another one.
pub(crate) fn is_undone(error: &sqlx::Error) -> bool {
    // serialization_failure and deadlock_detected
    error
        .as_database_error()
        .and_then(|error| error.code())
        .is_some_and(|code| ["40001", "40P01"].contains(&code.as_ref()))
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        if error.is_slow() {
            Self::new(ErrorCode::Timeout, "the store did not answer in time").with_source(error)
        } else {
            Self::internal(error)
        }
    }
}
