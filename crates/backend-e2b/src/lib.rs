//! Sandboxes of an E2B server, in its cloud or self-hosted.
//!
//! A session has one sandbox there. Our guest is put into it by envd, E2B's own daemon,
//! and reached through a port of the sandbox, or as a command of envd where ports are
//! closed. It is not the sandbox's init there, and what a sandbox may take is what its
//! template gives.

mod address;
mod backend;
mod config;
mod control;
mod door;
mod enter;
mod envd;
mod error;
mod guest;
mod http_client;
mod names;
mod place;
mod secret;
mod slots;
mod start;
mod token;
mod usage;

pub use address::{AddressError, Servers};
pub use backend::E2bBackend;
pub use config::{Door, E2bConfig};
pub use e2b_wire::FileOperation;
pub use secret::Secret;
