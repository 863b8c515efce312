//! What survives a restart of the service, in a database.
//!
//! The registry says which sessions there are; what they run is known to the
//! sessions alone. Nobody else names the database, which is SQLite or PostgreSQL:
//! [`open`] chooses by its URL.

mod artifacts;
mod audit;
mod error;
mod keys;
mod open;
mod postgres;
mod record;
mod sql;
mod sqlite;

pub use artifacts::{ArtifactRecord, ArtifactStore};
pub use audit::{AuditAction, AuditFilter, AuditRecord, AuditStore, ExecutionStore};
pub use error::StoreError;
pub use keys::{KeyRecord, KeyStore};
pub use open::{is_known, open, shown};
pub use postgres::{Postgres, PostgresStore};
pub use record::{SessionRecord, SessionStore};
pub use sql::SqlStore;
pub use sqlite::{Sqlite, SqliteStore};

/// Everything that a database keeps for the service.
pub trait Store: SessionStore + AuditStore + ExecutionStore + KeyStore + ArtifactStore {}

impl<T> Store for T where T: SessionStore + AuditStore + ExecutionStore + KeyStore + ArtifactStore {}
