//! Real sandboxes, looked at from the inside and from the outside.
//!
//! Needs bubblewrap and python3. `SANDBOX_GUEST` names the guest's program; without
//! it the guest is built first.
#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something is not as it should be"
)]

mod isolation;
mod life;
mod limits;
mod made;
mod outside;
mod self_test;
mod support;
mod system_calls;
mod template;
