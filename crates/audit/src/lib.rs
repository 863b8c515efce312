//! The way of audit records to the store: a bounded queue that loses nothing.
//!
//! ```text
//! record() -> queue -> writer -> store
//!                        |  ^
//!   the time to stop is up  | the next start reads it back
//!                        v  |
//!                       spool (files)
//! ```
//!
//! While the store is down records wait in the queue; while the queue is full
//! callers wait. A record is in the store once, for the store passes over one
//! that it has.

mod audit;
mod id;
mod line;
mod pending;
mod queue;
mod retention;
mod settings;
mod spool;
mod stop;
mod writer;

pub use audit::{Audit, Trail};
pub use pending::{DISCONNECTED, DONE, Pending};
pub use settings::AuditSettings;
