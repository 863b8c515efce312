//! Who is told what happens to sandboxes; metrics are made of it.

use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::{Error, ErrorCode, SessionKey};

use crate::{CreatedBy, session::paused};

/// Why a sandbox, or a session with it, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DestroyReason {
    /// Somebody asked for it.
    Deleted,
    /// Nobody used it for too long.
    Idle,
    /// Its time to live was over.
    Ttl,
    /// It had stopped, and newer ones needed its place.
    Evicted,
    /// It was made for one run, which is over.
    Finished,
    /// It ended by itself, or its guest did not answer any more.
    Lost,
    /// It could not be made completely.
    Failed,
    /// Its session was paused without its processes.
    Paused,
    /// The service stopped.
    Shutdown,
}

impl DestroyReason {
    pub const ALL: [Self; 9] = [
        Self::Deleted,
        Self::Idle,
        Self::Ttl,
        Self::Evicted,
        Self::Finished,
        Self::Lost,
        Self::Failed,
        Self::Paused,
        Self::Shutdown,
    ];

    /// snake_case, as in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Idle => "idle",
            Self::Ttl => "ttl",
            Self::Evicted => "evicted",
            Self::Finished => "finished",
            Self::Lost => "lost",
            Self::Failed => "failed",
            Self::Paused => "paused",
            Self::Shutdown => "shutdown",
        }
    }

    /// What a call learns whose session ended under it.
    pub(crate) fn error(self) -> Error {
        match self {
            Self::Shutdown => shutting_down(),
            Self::Ttl => Error::new(
                ErrorCode::SessionDeleted,
                "the session's time to live was over before the call was",
            ),
            Self::Paused => paused(),
            Self::Idle | Self::Evicted | Self::Finished | Self::Failed => Error::new(
                ErrorCode::SessionDeleted,
                "the session ended during the call",
            ),
            Self::Deleted | Self::Lost => Error::new(
                ErrorCode::SessionDeleted,
                "the session was deleted during the call",
            ),
        }
    }
}

pub(crate) fn shutting_down() -> Error {
    Error::new(ErrorCode::ShuttingDown, "the service is shutting down")
        .with_retry_after(Duration::from_secs(5))
}

/// But for what is async, it is told while a lock is held: it must neither block nor call back.
#[async_trait]
pub trait Observer: Send + Sync {
    /// A sandbox was made, `took` after it was wanted.
    fn created(&self, backend: &str, took: Duration);

    /// A sandbox that was made has ended.
    fn destroyed(&self, backend: &str, reason: DestroyReason, lifetime: Duration);

    /// A run got its turn after this wait.
    fn waited(&self, wait: Duration);

    /// How many sandboxes live now.
    fn active(&self, backend: &str, count: i64);

    /// How many sandboxes are ready that no session has yet.
    fn pooled(&self, backend: &str, count: i64);

    /// A session has begun, with its first sandbox, because of its first call or
    /// because somebody asked for it. Not told of one run's own.
    async fn session_began(&self, key: &SessionKey, by: Option<&CreatedBy>);

    /// A session has ended, and all that it had is gone. Not told of one run's own.
    async fn session_ended(&self, key: &SessionKey, reason: DestroyReason);
}

/// Takes no notice.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

#[async_trait]
impl Observer for NoObserver {
    fn created(&self, _: &str, _: Duration) {}
    fn destroyed(&self, _: &str, _: DestroyReason, _: Duration) {}
    fn waited(&self, _: Duration) {}
    fn active(&self, _: &str, _: i64) {}
    fn pooled(&self, _: &str, _: i64) {}
    async fn session_began(&self, _: &SessionKey, _: Option<&CreatedBy>) {}
    async fn session_ended(&self, _: &SessionKey, _: DestroyReason) {}
}
