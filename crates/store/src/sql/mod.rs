//! The stores' SQL, which is the same for each database.

mod artifacts;
mod audit;
mod database;
mod executions;
mod keys;
mod sessions;
mod statement;

pub(crate) use database::bound;
pub use database::{Database, Row};
pub use statement::{Statement, Value};

use crate::StoreError;

/// A store in a database.
pub struct SqlStore<D> {
    pub(crate) database: D,
    /// Whose sessions and artifacts these are: services that share a database
    /// have their workspaces each on its own machine.
    pub(crate) owner: String,
}

/// The error of a column that is not understood.
fn bad<E>(record: &str, column: &'static str) -> impl FnOnce(E) -> StoreError
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let record = record.to_owned();
    move |source| StoreError::Record {
        record,
        column,
        source: source.into(),
    }
}

/// Of a column that was written as a number from 0.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
