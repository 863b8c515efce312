//! The gate before a real Docker daemon: what the service does works, and what
//! somebody does who has taken the service over does not.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

mod attacks;
mod backend;
mod listener;
mod sandbox;
mod support;
mod wire;
