//! How long things may take, and that they end one way or the other.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt as _;
use sandbox_core::{Error, ErrorCode, Result};

/// For a caller, from its wish to a sandbox.
pub(crate) const LEASE: Duration = Duration::from_secs(90);
pub(crate) const CREATE: Duration = Duration::from_secs(45);
/// Of a sandbox that was started ahead: short, for after it another one is started.
pub(crate) const ADAPT: Duration = Duration::from_secs(10);
/// For one file of a new session.
pub(crate) const FILE: Duration = Duration::from_secs(15);
pub(crate) const FREEZE: Duration = Duration::from_secs(10);
pub(crate) const STOP: Duration = Duration::from_secs(30);
/// A workspace may have many files.
pub(crate) const REMOVE: Duration = Duration::from_secs(60);
pub(crate) const LIST: Duration = Duration::from_secs(60);
pub(crate) const STORE: Duration = Duration::from_secs(15);
/// For a run, in its session's queue.
pub(crate) const TURN: Duration = Duration::from_secs(600);

/// The result of a backend or a store; one that panics or hangs has failed.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    match tokio::time::timeout(limit, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Error::internal(format!("{what} panicked"))),
        Err(_) => Err(Error::new(
            ErrorCode::Timeout,
            format!("{what} did not end in time"),
        )),
    }
}
