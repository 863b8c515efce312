//! Executions: runs with a name.
//!
//! A run belongs to a task of its own, not to the request that asked for it, so
//! that several requests can wait for it, read its events and come back for its
//! outcome. It is cancelled when the last of them has gone, unless it was asked
//! to go on.
//!
//! ```text
//!          admitted, session's turn      program ended, cancelled, sandbox lost
//! waiting ------------------------> started -----------------------------------> ended
//!    |                                                                             ^
//!    '--------- refused: its name is free again -----------------------------------'
//! ```

mod artifacts;
mod audit;
mod drive;
mod event;
mod execution;
mod executions;
mod log;
mod processes;
mod request;
mod text;

pub use artifacts::{ArtifactSettings, Artifacts};
pub use event::Event;
pub use execution::{Attachment, Execution, Finished, Reader, Snapshot};
pub use executions::{ExecutionSettings, Executions, Observer, Parts};
pub use log::Item;
pub use processes::{
    Attached, Process, ProcessEnd, ProcessEvent, ProcessSettings, Processes, StartProcess,
};
pub use request::ExecutionRequest;
