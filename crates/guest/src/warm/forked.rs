//! A run that was forked, as its guest sees and ends it.
//!
//! It has no supervisor that all its orphans come back to. What it has started is
//! known by where it hangs in the tree of processes, and by a mark: a resource limit
//! without a meaning here, that goes on to each child and that none of them can raise.
//! A lower one that no run was given is one that a program has made itself.

use std::{
    collections::BTreeSet,
    fs,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use nix::{
    sys::time::TimeSpec,
    time::{ClockId, clock_gettime},
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::supervise::{control::Exit, tree};

/// Between two looks at what is left of a run that is being ended.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// A run that cannot be ended in this time is left to the guest.
const KILL_LIMIT: Duration = Duration::from_secs(2);
/// Looks that find nothing, before it is believed: one can miss who is just being born.
const EMPTY_LOOKS: usize = 2;
/// Of /proc/PID/stat; the same on every Linux since 2.4 (sysconf(3), _SC_CLK_TCK).
const TICKS_PER_SECOND: u64 = 100;

/// The mark of the newest run: below what is no limit at all, and each has one less.
static NEWEST_MARK: AtomicU64 = AtomicU64::new(1 << 62);

pub(super) fn next_mark() -> u64 {
    NEWEST_MARK.fetch_sub(1, Ordering::Relaxed) - 1
}

/// Orders to a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forked {
    pub pid: i32,
    pub mark: u64,
    /// It tells of the run's end.
    pub zygote: i32,
}

impl Forked {
    pub fn signal(self, signal: Signal) {
        send(self.pid, signal);
    }

    /// SIGINT to the program and what it runs in the foreground.
    pub fn interrupt(self) {
        if let Some(group) = Pid::from_raw(self.pid) {
            let _ = kill_process_group(group, Signal::INT);
        }
    }

    /// SIGKILL to all that the run has started; returns when nothing is left.
    pub async fn kill(self) {
        let _ = tokio::task::spawn_blocking(move || self.kill_all()).await;
    }

    /// SIGTERM to the same, and SIGKILL after the grace.
    pub async fn terminate(self, grace: Duration) {
        let ending = tokio::task::spawn_blocking(move || {
            let until = Instant::now() + grace;
            for pid in self.members() {
                send(pid, Signal::TERM);
            }
            while Instant::now() < until && !self.members().is_empty() {
                std::thread::sleep(LOOK_AGAIN);
            }
            self.kill_all();
        });
        let _ = ending.await;
    }

    fn kill_all(self) {
        let until = Instant::now() + KILL_LIMIT;
        let mut empty = 0;
        while empty < EMPTY_LOOKS && Instant::now() < until {
            let members = self.members();
            empty = if members.is_empty() { empty + 1 } else { 0 };
            for pid in members {
                send(pid, Signal::KILL);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        // The run may have stopped it.
        send(self.zygote, Signal::CONT);
    }

    /// Every living process of the run.
    fn members(self) -> BTreeSet<i32> {
        let tree = tree::Tree::now();
        let newest = NEWEST_MARK.load(Ordering::Relaxed);
        // Whose a lower one is nobody can tell any more, only that it wants to stay.
        let is_marked = |pid| mark(pid).is_some_and(|mark| mark == self.mark || mark < newest);
        // Elsewhere another guest may have given the same marks.
        let ours = tree.below(rustix::process::getpid().as_raw_pid());
        let roots: Vec<i32> = ours
            .into_iter()
            .filter(|pid| *pid == self.pid || is_marked(*pid))
            .collect();
        let mut members: BTreeSet<i32> = roots.iter().copied().collect();
        for root in roots {
            members.extend(tree.below(root));
        }
        members
    }
}

/// The mark of a process, if it has one.
fn mark(pid: i32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    // The hard limit: the soft one may be raised again.
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

pub(super) fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended since.
        let _ = kill_process(pid, signal);
    }
}

pub(super) fn kill(pid: i32) {
    send(pid, Signal::KILL);
}

/// How a run ends that says it is done. What it has used the kernel knows better.
pub(super) fn exit(pid: i32, code: i32) -> Exit {
    let own = ClockId::pid_cpu_clock_id(nix::unistd::Pid::from_raw(pid))
        .and_then(clock_gettime)
        .map_or(Duration::ZERO, |time: TimeSpec| time.into());
    let children = children_ticks(pid).unwrap_or(0) * (1_000_000 / TICKS_PER_SECOND);
    let own = u64::try_from(own.as_micros()).unwrap_or(u64::MAX);
    Exit {
        code: code & 0xFF,
        signal: 0,
        cpu_us: own.saturating_add(children),
        max_rss_bytes: peak_bytes(pid).unwrap_or(0),
    }
}

/// Processor time of the children that were waited for.
fn children_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Fields 16 and 17 of proc(5); the second is a name that may hold blanks.
    let mut fields = stat
        .get(stat.rfind(')')? + 1..)?
        .split_ascii_whitespace()
        .skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn peak_bytes(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}
