//! Interpreters that stay alive between runs.

use std::time::Duration;

use serde::Serialize;

use crate::{ByteSize, ContextName};

/// That a run is made in a context, which keeps the variables of the runs before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InContext {
    pub name: ContextName,
    /// Of the context from its first run on.
    pub language: String,
    /// Which of the guest's programs keeps the interpreter; the run's program says how
    /// it is started, and `{file}` in it is that program.
    pub driver: ContextDriver,
    pub limits: ContextLimits,
}

/// The languages that have contexts, whatever a table of languages calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextDriver {
    Python,
    JavaScript,
    R,
    Bash,
}

impl ContextDriver {
    pub const ALL: [Self; 4] = [Self::Python, Self::JavaScript, Self::R, Self::Bash];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::R => "r",
            Self::Bash => "bash",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|driver| driver.as_str() == name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextLimits {
    /// Of one session, at the same time.
    pub max_contexts: u32,
    /// A context that is not used for this long ends; `None`: with its sandbox.
    pub idle: Option<Duration>,
    /// Private memory of each process of a context; `None`: the sandbox's limit alone.
    pub memory: Option<ByteSize>,
}

impl Default for ContextLimits {
    fn default() -> Self {
        Self {
            max_contexts: 8,
            idle: Some(Duration::from_secs(3600)),
            memory: None,
        }
    }
}

/// What ended code in a context, as its language tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Raised {
    pub name: String,
    pub value: String,
    pub traceback: String,
}

/// What became of the context that a run was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextEnd {
    /// Its interpreter was started for this run.
    pub created: bool,
    /// Why its variables are gone; `None` when they are kept.
    pub loss: Option<ContextLoss>,
}

/// Why a context lost its variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextLoss {
    /// The interpreter ended, by itself or because somebody in the sandbox ended it.
    Died,
    /// The code could not be interrupted.
    Killed,
    /// The interpreter did not answer as it should.
    Broken,
    /// The context was deleted or restarted under the run.
    Stopped,
}

impl ContextLoss {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Died => "died",
            Self::Killed => "killed",
            Self::Broken => "broken",
            Self::Stopped => "stopped",
        }
    }
}

/// A context as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextInfo {
    pub name: String,
    pub language: String,
    pub busy: bool,
    /// Runs that it was given, the one under way included.
    pub runs: u64,
    pub age: Duration,
    /// Since the end of its last run.
    pub idle: Duration,
    /// Resident, of the interpreter alone.
    pub memory_bytes: u64,
}
