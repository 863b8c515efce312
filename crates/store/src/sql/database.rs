//! What a database does with statements, however it is reached.

use sqlx::{FromRow, postgres::PgRow, sqlite::SqliteRow};

use super::Statement;
use crate::StoreError;

/// A row that either database gives.
pub trait Row:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin + 'static
{
}

impl<T> Row for T where
    T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin + 'static
{
}

/// Runs statements; `action` says in errors what for. Each call has a deadline.
pub trait Database: Send + Sync + 'static {
    /// All of them or none; gives how many rows the last one changed.
    fn execute(
        &self,
        action: &'static str,
        statements: Vec<Statement<'_>>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    fn fetch<R: Row>(
        &self,
        action: &'static str,
        statement: Statement<'_>,
    ) -> impl Future<Output = Result<Vec<R>, StoreError>> + Send;

    /// Whether it answers, said soon.
    fn ping(&self) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Gives a query the values of a statement.
macro_rules! bound {
    ($query:expr, $statement:expr) => {{
        let mut query = $query.persistent($statement.prepared);
        for value in &$statement.values {
            query = match value {
                $crate::sql::Value::Text(text) => query.bind(text.as_deref()),
                $crate::sql::Value::Integer(number) => query.bind(*number),
                $crate::sql::Value::Bool(value) => query.bind(*value),
                $crate::sql::Value::Bytes(bytes) => query.bind(*bytes),
            };
        }
        query
    }};
}

pub(crate) use bound;
