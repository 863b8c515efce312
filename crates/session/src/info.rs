//! What can be seen of a session from outside.

use std::time::Duration;

use sandbox_backend::Usage;
use sandbox_core::{SandboxSpec, SessionKey, SessionOptions, Timestamp};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// Its sandbox is being made.
    Starting,
    Running,
    /// It has a workspace; the next call makes a sandbox.
    Stopped,
    /// It is kept as it is until somebody resumes it.
    Paused,
    /// All of it is being removed.
    Ending,
}

impl SessionState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Paused => "paused",
            Self::Ending => "ending",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    pub key: SessionKey,
    pub state: SessionState,
    pub backend: &'static str,
    pub created: Timestamp,
    pub last_used: Timestamp,
    /// When it ends if nobody uses it; absent when it is ending.
    pub expires: Option<Timestamp>,
    pub spec: SandboxSpec,
    pub options: SessionOptions,
    pub idle_timeout: Duration,
    /// When it ends however much it is used.
    pub ends: Option<Timestamp>,
    pub paused: Option<Paused>,
    pub active_runs: usize,
    pub queued_runs: usize,
    pub usage: Usage,
}

/// How a session is kept while it is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paused {
    pub since: Timestamp,
    /// With its processes; else with its files alone.
    pub with_memory: bool,
}
