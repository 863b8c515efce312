//! When files changed, as the kernel's file times tell it.

use std::{
    io,
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags, Stat, fstat, open},
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
pub(crate) struct LastChange {
    at: AtomicI64,
    /// Whether a file that was looked at has another time after its next change.
    tells_all: OnceLock<bool>,
}

impl LastChange {
    /// The fine clock: newer kernels give some files times between two ticks.
    pub fn is_now(&self) {
        let now = Moment::now(ClockId::Realtime).0;
        self.at.fetch_max(now, Ordering::Relaxed);
    }

    /// A run has ended; `looked`: at all files that it changed, which are remembered.
    /// Where the file system tells all changes, the next need not wait to tell its own.
    pub fn run_ended(&self, looked: bool, workspace: &Path) {
        let tells_all = || *self.tells_all.get_or_init(|| tells_all_changes(workspace));
        if !(looked && tells_all()) {
            self.is_now();
        }
    }

    /// A moment that all files changed from now on have reached, and none that
    /// was changed before. File times stand still between two ticks of the
    /// kernel, so after a change it may take until the next.
    pub async fn begin(&self) -> Moment {
        let begin = Moment::now(ClockId::Realtime).0;
        loop {
            // The clock of file times.
            let now = Moment::now(ClockId::RealtimeCoarse);
            let last = self.at.load(Ordering::Relaxed).min(begin);
            let waited = Moment::now(ClockId::Realtime).0 - begin;
            if now.0 > last || u128::try_from(waited).unwrap_or(u128::MAX) > LONGEST_TICK.as_nanos()
            {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Whether two changes within a tick are told apart when somebody has looked in
/// between, as newer kernels do on most file systems.
fn tells_all_changes(folder: &Path) -> bool {
    let twice = || -> io::Result<bool> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = open(folder, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::io::write(&file, b"1")?;
        let first = fstat(&file)?;
        rustix::io::write(&file, b"2")?;
        Ok(Moment::changed(&first) < Moment::changed(&fstat(&file)?))
    };
    // One of so many pairs is within a tick for sure.
    (0..5).all(|_| twice().unwrap_or(false))
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

    #[tokio::test]
    async fn after_a_run_that_was_looked_at_nobody_waits_where_that_is_enough() {
        let dir = tempfile::tempdir().unwrap();
        let change = LastChange::default();
        change.run_ended(true, dir.path());
        let waits = change.at.load(Ordering::Relaxed) > 0;
        assert_eq!(waits, !tells_all_changes(dir.path()));
        change.run_ended(false, dir.path());
        assert!(change.at.load(Ordering::Relaxed) > 0);
        assert!(!tells_all_changes(Path::new("/nowhere")));
    }
}
