//! What the operator decides about sessions.

use std::time::Duration;

use sandbox_core::SandboxSpec;

#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Of every session that is made from now on.
    pub spec: SandboxSpec,
    /// Sandboxes that live at the same time, and stopped sessions that are kept.
    pub max_sessions: usize,
    /// The same for each tenant.
    pub tenant_max_sessions: usize,
    /// Sessions of one tenant that are kept paused.
    pub tenant_max_paused: usize,
    /// A session that nobody uses for this long ends.
    pub idle_timeout: Duration,
    /// A session ends this long after it was made, used or not.
    pub ttl: Option<Duration>,
    /// Runs at the same time in one session.
    pub runs_per_session: usize,
    /// Runs that may wait for their turn in one session.
    pub queued_runs_per_session: usize,
    /// Sandboxes that are started ahead, within `max_sessions`.
    pub pool_size: usize,
    /// Between two looks for sessions whose time is up.
    pub reap_interval: Duration,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            spec: SandboxSpec::default(),
            max_sessions: 50,
            tenant_max_sessions: 50,
            tenant_max_paused: 100,
            idle_timeout: Duration::from_secs(900),
            ttl: None,
            runs_per_session: 4,
            queued_runs_per_session: 64,
            pool_size: 0,
            reap_interval: Duration::from_secs(5),
        }
    }
}
