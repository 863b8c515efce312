//! Sessions: a tenant's name for one sandbox over time.
//!
//! A session is made on its first call, exactly once however many calls race,
//! and shared by them all. Its workspace outlives each of its sandboxes; it
//! ends when it is deleted, unused for too long, or too old. The states are
//! drawn in `session.rs`.

mod acquire;
mod contexts;
mod create;
mod deadline;
mod end;
mod entries;
mod find;
mod info;
mod lease;
mod manager;
mod new;
mod observer;
mod outcome;
mod pause;
mod pool;
mod reap;
mod restart;
mod run;
mod sandbox;
mod session;
mod settings;
mod shared;
mod shutdown;
mod table;

pub use info::{Paused, SessionInfo, SessionState};
pub use lease::Lease;
pub use manager::SessionManager;
pub use new::{CreatedBy, NewSession};
pub use observer::{DestroyReason, NoObserver, Observer};
pub use run::{ActiveRun, RunPlace, RunReport};
pub use settings::SessionSettings;
