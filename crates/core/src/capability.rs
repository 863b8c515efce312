//! What a backend can do, so that a spec is refused before anything is made.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// One thing that a backend does, and enforces where it is a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Runs programs.
    Exec,
    /// Reads, writes and searches files.
    Files,
    /// A sandbox that died comes back with its workspace.
    PersistentWorkspace,
    /// A paused sandbox keeps its processes.
    Freeze,
    /// Gives each sandbox limits of its own; else all have the operator's.
    Limits,
    /// The guest is a sandbox's init: no program ends it.
    Init,
    /// Forks runs of Python from an interpreter that has started.
    WarmPython,
    /// Lets a sandbox reach the network.
    Network,
    /// Makes sandboxes of the images that they name.
    Images,
    /// Sandboxes see GPUs.
    Gpu,
}

pub type Capabilities = BTreeSet<Capability>;
