//! The router over a real session manager and a backend that has no sandboxes.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod auth;
mod certificate;
mod contexts;
mod deploy;
mod files;
mod health;
mod log;
mod openapi;
mod problems;
mod run;
mod server;
mod sessions;
mod support;
