//! What the service is measured against.

mod empty;
mod forks;
mod jupyter;
mod process;
mod sdk;
mod venv;

pub use empty::{Empty, SERVE_EMPTY, serve_empty};
pub use forks::Forks;
pub use jupyter::Jupyter;
pub use process::{Plain, Process, Threaded, bare};
pub use sdk::{Sdk, in_form};

/// What sandboxes run, and so what is run beside them.
pub const PYTHON: &str = "/usr/bin/python3";
