//! When files changed, as the kernel's file times tell it.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use rustix::{
    fs::Stat,
    time::{ClockId, clock_gettime},
};

/// A file time; nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(i64);

const NANOS: i64 = 1_000_000_000;
/// More than a tick of any kernel: 10 ms at 100 Hz.
const LONGEST_TICK: Duration = Duration::from_millis(20);

impl Moment {
    fn now(clock: ClockId) -> Self {
        let now = clock_gettime(clock);
        Self(now.tv_sec * NANOS + now.tv_nsec)
    }

    pub fn changed(found: &Stat) -> Self {
        let nanos = i64::try_from(found.st_ctime_nsec).unwrap_or(0);
        Self(found.st_ctime.saturating_mul(NANOS).saturating_add(nanos))
    }
}

/// When something in the workspace was last changed that no run to come did.
#[derive(Default)]
pub(crate) struct LastChange(AtomicI64);

impl LastChange {
    /// The fine clock: newer kernels give some files times between two ticks.
    pub fn is_now(&self) {
        let now = Moment::now(ClockId::Realtime).0;
        self.0.fetch_max(now, Ordering::Relaxed);
    }

    /// A moment that all files changed from now on have reached, and none that
    /// was changed before. File times stand still between two ticks of the
    /// kernel, so after a change it may take until the next.
    pub async fn begin(&self) -> Moment {
        let begin = Moment::now(ClockId::Realtime).0;
        loop {
            // The clock of file times.
            let now = Moment::now(ClockId::RealtimeCoarse);
            let last = self.0.load(Ordering::Relaxed).min(begin);
            let waited = Moment::now(ClockId::Realtime).0 - begin;
            if now.0 > last || u128::try_from(waited).unwrap_or(u128::MAX) > LONGEST_TICK.as_nanos()
            {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::stat;

    use super::*;

    #[tokio::test]
    async fn what_was_written_before_is_told_from_what_is_written_after() {
        let dir = tempfile::tempdir().unwrap();
        let change = LastChange::default();
        for n in 0..50 {
            let (before, after) = (dir.path().join("before"), dir.path().join("after"));
            fs::write(&before, "x").unwrap();
            // Read, so that kernels that do give the next change a finer time.
            stat(&before).unwrap();
            fs::write(&before, "y").unwrap();
            change.is_now();
            let begin = change.begin().await;
            fs::write(&after, "x").unwrap();
            let (before, after) = (stat(&before).unwrap(), stat(&after).unwrap());
            assert!(Moment::changed(&before) < begin, "{n}");
            assert!(Moment::changed(&after) >= begin, "{n}");
        }
    }
}
