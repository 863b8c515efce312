//! E2B's API in front of our sandboxes, for its official SDKs as they are.
//!
//! One listener carries all of it: the control plane, envd and the code interpreter of
//! each sandbox, and whatever listens inside one. Which is meant is told by the host's
//! name or by headers (`target.rs`).
//!
//! A sandbox is a session whose name the service chose and whose options say that it
//! came from here; no other session can be reached, and those of other tenants look
//! like none. Its tokens are made from a secret of the service, so that nothing is
//! stored and they hold over a restart.

mod caller;
mod clock;
mod control;
mod domain;
mod error;
mod interpreter;
mod sandbox;
mod secret;
mod settings;
mod state;
mod target;
mod traffic;

pub use domain::Domain;
pub use secret::Secret;
pub use settings::{E2bSettings, Template};
pub use state::{E2bParts, router};
