//! A guest that is not its sandbox's init: another program's is.
//!
//! What its programs leave behind comes to it nevertheless, and it ends with all of them:
//! nothing of it is left for a guest that comes after it.

use std::{
    fs, io,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, getpid, set_child_subreaper};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use crate::{cgroup::Used, supervise::tree};

/// Between two looks at what is left.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const KILL_LIMIT: Duration = Duration::from_secs(3);

pub(crate) struct Beside(tokio::signal::unix::Signal);

impl Beside {
    /// `None` where the guest is the init.
    pub fn init() -> io::Result<Option<Self>> {
        let me = getpid();
        if me == Pid::INIT {
            return Ok(None);
        }
        set_child_subreaper(Some(me))?;
        Ok(Some(Self(signal(SignalKind::terminate())?)))
    }

    /// Serves until its end, or until somebody asks for it.
    pub async fn until_told(
        mut self,
        serving: impl Future<Output = io::Result<()>>,
    ) -> io::Result<()> {
        let served = tokio::select! {
            served = serving => served,
            _ = self.0.recv() => Ok(()),
        };
        let me = getpid().as_raw_pid();
        let until = Instant::now() + KILL_LIMIT;
        while Instant::now() < until && !tree::descendants(me).is_empty() {
            tree::signal_descendants(me, Signal::KILL);
            sleep(LOOK_AGAIN).await;
        }
        served
    }
}

/// What the guest and all its programs take: the cgroup, if one is seen, is of more.
pub(crate) fn used() -> Used {
    let me = getpid().as_raw_pid();
    let mut all = tree::descendants(me);
    all.push(me);
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(0);
    let tick_us = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let of_all = |of: fn(i32) -> Option<u64>| -> u64 { all.iter().copied().filter_map(of).sum() };
    Used {
        memory_bytes: Some(of_all(private_pages) * page),
        cpu_us: Some(of_all(ticks) * tick_us),
        pids: u32::try_from(all.len()).ok(),
    }
}

/// What a process shares with files and others is left out: it would count many times.
fn private_pages(pid: i32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut fields = statm.split(' ').skip(1).map(str::parse::<u64>);
    let (resident, shared) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(resident.saturating_sub(shared))
}

/// With those of its children that have ended.
fn ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may hold blanks and parentheses.
    let fields = stat.get(stat.rfind(')')? + 2..)?.split(' ');
    Some(
        fields
            .skip(11)
            .take(4)
            .filter_map(|field| field.parse::<u64>().ok())
            .sum(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_takes_memory_and_time() {
        let before = used();
        let mut kept = vec![1_u8; 64 << 20];
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(300) {
            kept[0] = kept[0].wrapping_add(kept[1]);
        }
        let after = used();
        let of = |used: Used| (used.memory_bytes.unwrap(), used.cpu_us.unwrap());
        assert!(
            of(after).0 > of(before).0 + (48 << 20),
            "{before:?} {after:?}"
        );
        assert!(of(after).1 > of(before).1 + 100_000, "{before:?} {after:?}");
        assert!(kept[0] > 0 || kept[1] == 1);
    }
}
