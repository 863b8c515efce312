//! The registry of sessions: what survives a restart of the service.
//!
//! The registry says which sessions there are; what they run is known to the
//! sessions alone. Nobody else names the database.

mod error;
mod record;
mod row;
mod sqlite;

pub use error::StoreError;
pub use record::{SessionRecord, SessionStore};
pub use sqlite::SqliteStore;
