//! What goes wrong in a store, and what of it the service's callers learn.

use std::{io, path::PathBuf};

use sandbox_core::{Error, ErrorCode};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("failed to make the database file `{}`", path.display())]
    Create { path: PathBuf, source: io::Error },

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
            Self::Query { source, .. } => matches!(source, sqlx::Error::PoolTimedOut),
            _ => false,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        if error.is_slow() {
            Self::new(
                ErrorCode::Timeout,
                "the registry of sessions did not answer in time",
            )
            .with_source(error)
        } else {
            Self::internal(error)
        }
    }
}
