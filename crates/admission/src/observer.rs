//! Who is told what callers were given; metrics are made of it.

use std::time::Duration;

use sandbox_core::ErrorCode;

/// Is told on the caller's way: it must not block.
pub trait Observer: Send + Sync {
    /// A run got its place after this wait.
    fn admitted(&self, wait: Duration);

    /// A request or a run was refused, with this code.
    fn refused(&self, code: ErrorCode);
}

/// Takes no notice.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn admitted(&self, _: Duration) {}
    fn refused(&self, _: ErrorCode) {}
}
