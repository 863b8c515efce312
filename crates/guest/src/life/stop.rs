//! Stopping every process of the namespace, and letting them go on.
//!
//! Parents before their children, and the other way round afterwards: a shell that ran
//! while its job was stopped would take it for a job that somebody has suspended.

use std::{
    collections::{BTreeMap, HashMap},
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// Who makes processes faster than they are stopped one by one loses the order.
const IN_ORDER: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_micros(300);
/// For one level of the tree; whoever is in the kernel for longer stops when it returns.
const LEVEL_LIMIT: Duration = Duration::from_millis(100);
/// Looks that find none that runs, before it is believed.
const QUIET_LOOKS: usize = 2;

/// Processes that were stopped when nobody was frozen, by their number and start.
pub(super) type Stopped = Vec<(i32, u64)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    state: char,
    /// Since the machine's start, in ticks: tells two of one number apart.
    start: u64,
}

impl Process {
    /// Of a line of /proc/PID/stat, see proc_pid_stat(5).
    fn parse(stat: &str) -> Option<Self> {
        // The name, in parentheses, is the program's choice and may hold anything.
        let (head, fields) = stat.rsplit_once(')')?;
        let pid = head.split_whitespace().next()?.parse().ok()?;
        let mut fields = fields.split_whitespace();
        Some(Self {
            pid,
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            start: fields.nth(17)?.parse().ok()?,
        })
    }

    fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// It runs, or may run any time. Whoever waits in the kernel without being woken
    /// ('D', as the parent of a vfork) has its signal and stops on its way out.
    fn may_run(&self) -> bool {
        matches!(self.state, 'R' | 'S' | 'I')
    }

    fn send(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may have ended since.
            let _ = kill_process(pid, signal);
        }
    }
}

/// All but this one.
fn processes() -> Vec<Process> {
    let own = rustix::process::getpid().as_raw_pid();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != own)
        .filter_map(|pid| Process::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

/// By how far they are from the init, nearest first.
fn levels(processes: &[Process]) -> BTreeMap<usize, Vec<Process>> {
    let parents: HashMap<i32, i32> = processes.iter().map(|it| (it.pid, it.parent)).collect();
    let depth = |process: &Process| {
        let mut depth = 0;
        let mut parent = process.parent;
        // Numbers may be given anew while one looks, to a circle even.
        while let Some(next) = parents.get(&parent).filter(|_| depth < parents.len()) {
            depth += 1;
            parent = *next;
        }
        depth
    };
    let mut levels: BTreeMap<usize, Vec<Process>> = BTreeMap::new();
    for process in processes {
        levels.entry(depth(process)).or_default().push(*process);
    }
    levels
}

/// Stops all. `earlier` is given where all was stopped before. An error is what had been
/// stopped by others before all this.
pub(super) fn all(earlier: Option<Stopped>) -> Result<Stopped, Stopped> {
    let earlier = earlier.unwrap_or_else(|| {
        let stopped = processes().into_iter().filter(Process::is_stopped);
        stopped.map(|it| (it.pid, it.start)).collect()
    });
    let began = Instant::now();
    let mut quiet = 0;
    while quiet < QUIET_LOOKS {
        if began.elapsed() > LIMIT {
            return Err(earlier);
        }
        if began.elapsed() > IN_ORDER {
            everybody(Signal::STOP);
        }
        let now = processes();
        let running: Vec<_> = levels(&now)
            .into_values()
            .find_map(|level| {
                let running: Vec<_> = level.into_iter().filter(Process::may_run).collect();
                (!running.is_empty()).then_some(running)
            })
            .unwrap_or_default();
        if running.is_empty() {
            quiet += 1;
            // To be sure of who was born while we looked: nobody can be now.
            everybody(Signal::STOP);
            continue;
        }
        quiet = 0;
        for process in &running {
            process.send(Signal::STOP);
        }
        wait_for(&running);
    }
    Ok(earlier)
}

/// `kill(-1)`: every process of the namespace but the init.
fn everybody(signal: Signal) {
    let _ = rustix::process::kill_process_group(Pid::INIT, signal);
}

fn wait_for(stopping: &[Process]) {
    let until = Instant::now() + LEVEL_LIMIT;
    let runs = |process: &Process| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
        Process::parse(&stat).is_some_and(|now| now.start == process.start && now.may_run())
    };
    while stopping.iter().any(runs) && Instant::now() < until {
        thread::sleep(LOOK_AGAIN);
    }
}

/// Lets all go on but those that were stopped before.
pub(super) fn go_on(earlier: &Stopped) {
    for level in levels(&processes()).into_values().rev() {
        for process in level {
            if !earlier.contains(&(process.pid, process.start)) {
                // One that has not come to stop yet forgets it.
                process.send(Signal::CONT);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let line = "42 (a) b (c) T 7 42 42 0 -1 4194304 100 0 0 0 7 5 0 0 20 0 1 0 991 1000 321";
        let process = Process {
            pid: 42,
            parent: 7,
            state: 'T',
            start: 991,
        };
        assert_eq!(Process::parse(line), Some(process));
        assert_eq!(Process::parse(""), None);
        assert_eq!(Process::parse("42 (cat) S 1"), None);
    }

    #[test]
    fn parents_come_before_their_children_and_circles_end() {
        let of = |pid, parent| Process {
            pid,
            parent,
            state: 'S',
            start: 0,
        };
        let all = [
            of(9, 5),
            of(5, 2),
            of(2, 1),
            of(3, 1),
            of(30, 31),
            of(31, 30),
        ];
        let levels = levels(&all);
        let pids: Vec<Vec<i32>> = levels
            .into_values()
            .map(|level| level.into_iter().map(|it| it.pid).collect())
            .collect();
        assert_eq!(pids, [vec![2, 3], vec![5], vec![9], vec![30, 31]]);
    }
}
