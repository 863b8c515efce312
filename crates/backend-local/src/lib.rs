//! Local sandboxes on bubblewrap.
//!
//! Owns what a sandbox is on this machine: its directory and host user
//! (`workspaces`), its limits (`cgroup`), what it sees (`rootfs`, `arguments`),
//! which system calls it has (`seccomp`), its life (`spawn`, `process`, `place`), and
//! the warm Python that is forked into it (`template`). There is no unconfined fallback: what cannot be isolated is not run.

mod arguments;
mod backend;
mod bwrap;
mod cgroup;
mod config;
mod diagnose;
mod error;
mod place;
mod process;
mod rootfs;
mod seccomp;
mod self_test;
mod spawn;
mod state;
mod template;
mod tree;
mod workspaces;

pub use backend::LocalBackend;
pub use config::{LocalConfig, PythonTemplate};
pub use diagnose::{Finding, diagnose};
