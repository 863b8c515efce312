//! The backend and a server that says what E2B's control plane says.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod account;
mod errors;
mod fake;
