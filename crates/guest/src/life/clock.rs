//! Time as the sandbox's programs live it: it stands still while they are frozen.
//!
//! That they are frozen is a fact of the whole namespace, as the guest is of its init:
//! so it is kept once for the process, and every limit of time asks here.

use std::{
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::watch;

static FROZEN: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));
static LOST: Mutex<Lost> = Mutex::new(Lost {
    all: Duration::ZERO,
    since: None,
});

/// Time that nobody lived.
struct Lost {
    /// Of freezes that are over.
    all: Duration,
    /// Of the one that is not.
    since: Option<Instant>,
}

fn lost() -> MutexGuard<'static, Lost> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lost_so_far() -> Duration {
    let lost = lost();
    lost.all + lost.since.map_or(Duration::ZERO, |since| since.elapsed())
}

pub(super) fn freeze() {
    lost().since.get_or_insert_with(Instant::now);
    FROZEN.send_replace(true);
}

pub(super) fn thaw() {
    {
        let mut lost = lost();
        let since = lost.since.take();
        lost.all += since.map_or(Duration::ZERO, |since| since.elapsed());
    }
    FROZEN.send_replace(false);
}

/// Returns at once, but for a sandbox that is frozen: then when it is no more.
pub(crate) async fn awake() {
    // Without a lock or a receiver where nothing is frozen, which is always.
    if *FROZEN.borrow() {
        let mut frozen = FROZEN.subscribe();
        let _ = frozen.wait_for(|frozen| !frozen).await;
    }
}

/// When something began.
#[derive(Clone, Copy)]
pub(crate) struct Began {
    at: Instant,
    lost_before: Duration,
}

impl Began {
    pub fn now() -> Self {
        Self {
            at: Instant::now(),
            lost_before: lost_so_far(),
        }
    }

    pub fn elapsed(&self) -> Duration {
        let lost = lost_so_far().saturating_sub(self.lost_before);
        self.at.elapsed().saturating_sub(lost)
    }
}

pub(crate) async fn sleep(limit: Duration) {
    let began = Began::now();
    loop {
        let left = limit.saturating_sub(began.elapsed());
        tokio::time::sleep(left).await;
        awake().await;
        if began.elapsed() >= limit {
            return;
        }
    }
}

#[derive(Debug)]
pub(crate) struct Elapsed;

/// As `tokio::time::timeout`, in this time.
pub(crate) async fn timeout<F: Future>(limit: Duration, work: F) -> Result<F::Output, Elapsed> {
    tokio::select! {
        biased;
        result = work => Ok(result),
        () = sleep(limit) => Err(Elapsed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In one test, for it is one clock.
    #[tokio::test]
    async fn time_stands_still_while_all_is_frozen() {
        let began = Began::now();
        freeze();
        freeze();
        let sleeping = tokio::spawn(timeout(
            Duration::from_millis(50),
            std::future::pending::<()>(),
        ));
        let waiting = tokio::spawn(awake());
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!sleeping.is_finished() && !waiting.is_finished());
        assert!(began.elapsed() < Duration::from_millis(100));
        thaw();
        waiting.await.unwrap();
        assert!(sleeping.await.unwrap().is_err());
        assert!(began.elapsed() >= Duration::from_millis(50));
        assert_eq!(timeout(Duration::ZERO, async { 1 }).await.unwrap(), 1);
    }
}
