//! A connection for the time of one call.

use sqlx::{Connection as _, PgConnection, Postgres, pool::PoolConnection};

use super::Done;
use crate::{
    error::is_lost,
    sql::{Statement, bound},
};

/// Closed rather than given back while it is not known to be sound: the pool
/// would wait for the answer to a call that was given up, without end if the
/// server is cut off.
pub(super) struct InUse {
    connection: PoolConnection<Postgres>,
    sound: bool,
}

impl InUse {
    pub(super) fn new(connection: PoolConnection<Postgres>) -> Self {
        Self {
            connection,
            sound: true,
        }
    }

    pub(super) async fn run(&mut self, statements: &[Statement<'_>]) -> sqlx::Result<Done> {
        self.sound = false;
        let result = run(&mut self.connection, statements).await;
        self.sound = match &result {
            Ok(_) => true,
            Err(error) => !is_lost(error),
        };
        result
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if !self.sound {
            self.connection.close_on_drop();
        }
    }
}

async fn run(connection: &mut PgConnection, statements: &[Statement<'_>]) -> sqlx::Result<Done> {
    if let [statement] = statements {
        return one(connection, statement).await;
    }
    let mut done = Done::default();
    let mut transaction = connection.begin().await?;
    for statement in statements {
        done = one(&mut transaction, statement).await?;
    }
    transaction.commit().await?;
    Ok(done)
}

async fn one(connection: &mut PgConnection, statement: &Statement<'_>) -> sqlx::Result<Done> {
    let query = bound!(sqlx::query(&statement.sql), statement);
    if statement.returns_rows() {
        let rows = query.fetch_all(connection).await?;
        return Ok(Done { rows, changed: 0 });
    }
    let changed = query.execute(connection).await?.rows_affected();
    Ok(Done {
        rows: Vec::new(),
        changed,
    })
}
