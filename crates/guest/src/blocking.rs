//! File work on threads of its own, for as long as somebody waits for it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;

use crate::error::error;

/// Who waits for the work.
pub(crate) struct Caller(Arc<AtomicBool>);

impl Caller {
    pub fn is_gone(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error, which nobody will see, when the work has become pointless.
    pub fn check(&self) -> Result<(), ConnectError> {
        if self.is_gone() {
            return Err(ConnectError::canceled("the caller has gone"));
        }
        Ok(())
    }
}

struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does work that may wait for a disk. The thread cannot be stopped: long work
/// asks its caller now and then.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Caller) -> Result<T, ConnectError> + Send + 'static,
) -> Result<T, ConnectError> {
    let gone = Gone(Arc::default());
    let caller = Caller(Arc::clone(&gone.0));
    tokio::task::spawn_blocking(move || work(&caller))
        .await
        .unwrap_or_else(|_| Err(error(ErrorCode::Internal, "the file work was broken off")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn work_learns_that_nobody_waits_any_more() {
        let (learned, end) = tokio::sync::oneshot::channel();
        let call = blocking(move |caller| {
            while caller.check().is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = learned.send(());
            Ok(())
        });
        assert!(
            tokio::time::timeout(Duration::from_millis(20), call)
                .await
                .is_err()
        );
        tokio::time::timeout(Duration::from_secs(10), end)
            .await
            .unwrap()
            .unwrap();
    }
}
