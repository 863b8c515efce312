//! What the guest and a supervisor say to each other: one JSON object a line.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::UserLimits;

/// The first word from the guest, after the program's three streams and what else it
/// is given: how long the rest is, and that as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    /// The streams are a terminal that the program shall control.
    pub terminal: bool,
    pub limits: UserLimits,
}

/// From the guest, later on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// SIGTERM to all that the program has started, and SIGKILL after the grace.
    Terminate { grace_ms: u64 },
    /// SIGKILL to all that the program has started.
    Kill,
    /// A signal to the program alone, or to its terminal's foreground group.
    Signal { number: i32 },
    /// SIGINT to the program and what it runs in the foreground, as a terminal does.
    Interrupt,
}

/// From the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    Started {
        pid: i32,
    },
    /// The program could not be started.
    Failed {
        errno: i32,
    },
    /// The program ended; what it left in the background goes on.
    Ended(Exit),
}

/// How a program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    pub code: i32,
    /// Zero unless a signal ended it.
    pub signal: i32,
    pub cpu_us: u64,
    pub max_rss_bytes: u64,
}
