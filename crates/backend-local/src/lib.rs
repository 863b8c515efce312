//! Local sandboxes on bubblewrap.
//!
//! Bubblewrap makes the namespaces and the root; seccomp filters, control
//! groups, rlimits and a host user for each sandbox are added here. Without
//! bubblewrap there is no sandbox: nothing falls back to less.

mod backend;
mod cgroup;
mod diagnose;
mod place;
mod rootfs;
mod seccomp;
mod self_test;
mod spawn;
mod workspaces;

pub use backend::{LocalBackend, LocalConfig};
pub use diagnose::{Finding, diagnose};
