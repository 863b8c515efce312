//! The sandbox of a session while it lives, and until nothing of it is left.

use std::sync::{Arc, OnceLock};

use sandbox_backend::Place;
use sandbox_core::{Error, ErrorCode, Timestamp};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::DestroyReason;

pub(crate) struct Sandbox {
    pub place: Arc<dyn Place>,
    pub made_at: Timestamp,
    /// Cancelled when nobody may use it any more.
    over: CancellationToken,
    reason: OnceLock<DestroyReason>,
    /// Set when it has been stopped, which is done by one task at a time.
    pub stopped: OnceCell<()>,
}

impl Sandbox {
    pub fn new(place: Arc<dyn Place>, made_at: Timestamp) -> Self {
        Self {
            place,
            made_at,
            over: CancellationToken::new(),
            reason: OnceLock::new(),
            stopped: OnceCell::new(),
        }
    }

    pub fn is_alive(&self) -> bool {
        !self.over.is_cancelled() && !self.place.guest().is_closed()
    }

    /// The first reason stays.
    pub fn give_up(&self, reason: DestroyReason) {
        let _ = self.reason.set(reason);
        self.over.cancel();
    }

    pub fn reason(&self) -> DestroyReason {
        self.reason.get().copied().unwrap_or(DestroyReason::Lost)
    }

    /// Resolves when it has died or was given up.
    pub async fn until_over(&self) {
        tokio::select! {
            () = self.over.cancelled() => {}
            () = self.place.gone() => {}
            () = self.place.guest().closed() => {}
        }
    }

    /// Resolves when its session knows that it is dead.
    pub async fn until_given_up(&self) -> Error {
        self.over.cancelled().await;
        Error::new(ErrorCode::SandboxLost, "the sandbox ended during the call")
    }
}
