//! The E2B API before real sandboxes of the local backend: what each route answers, to
//! whom, and what it refuses.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod control;
mod envd;
mod hosts;
mod interpreter;
mod ports;
mod sockets;
mod support;
