//! The processes of the sandbox, and who is whose child.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
};

use rustix::process::{Pid, Signal, kill_process};

const INIT: i32 = 1;
/// Fields of proc(5) between the parent, the 4th, and the number of threads, the 20th.
const THREADS_AFTER_PARENT: usize = 15;

/// Parent of each process that lives, as /proc has it now.
fn parents() -> Vec<(i32, i32)> {
    let is_init = rustix::process::getpid() == Pid::INIT;
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let parent = match parent_in(&stat)? {
                // Of this namespace, and put into it from outside.
                0 if pid != INIT && is_init => INIT,
                parent => parent,
            };
            Some((pid, parent))
        })
        .collect()
}

/// The parent in a line of /proc/PID/stat, unless the process has ended.
fn parent_in(stat: &str) -> Option<i32> {
    // The command's name is user input and may hold blanks and parentheses.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // The state is the first thread's: the others may go on without it.
    let threads = fields.nth(THREADS_AFTER_PARENT);
    let lives = match state {
        "Z" => threads.is_some_and(|count| count.parse().is_ok_and(|count: u32| count > 1)),
        state => state != "X",
    };
    lives.then_some(parent)
}

/// As it was at one moment.
pub(crate) struct Tree {
    children: HashMap<i32, Vec<i32>>,
}

impl Tree {
    pub fn now() -> Self {
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for (pid, parent) in parents() {
            children.entry(parent).or_default().push(pid);
        }
        Self { children }
    }

    #[cfg(test)]
    pub fn of(children: impl IntoIterator<Item = (i32, Vec<i32>)>) -> Self {
        Self {
            children: children.into_iter().collect(),
        }
    }

    pub fn children(&self, parent: i32) -> &[i32] {
        self.children.get(&parent).map_or(&[], Vec::as_slice)
    }

    /// Every process below `root`, `root` itself left out.
    pub fn below(&self, root: i32) -> Vec<i32> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::from([root]);
        let mut next = vec![root];
        while let Some(parent) = next.pop() {
            for child in self.children(parent).iter().copied() {
                // Numbers may be given anew while one looks, to a circle even.
                if seen.insert(child) {
                    found.push(child);
                    next.push(child);
                }
            }
        }
        found
    }
}

/// Every living process below `root`, `root` itself left out.
pub(crate) fn descendants(root: i32) -> Vec<i32> {
    Tree::now().below(root)
}

/// Sends a signal to every process below `root`.
pub(crate) fn signal_descendants(root: i32, signal: Signal) {
    for pid in descendants(root).into_iter().filter_map(Pid::from_raw) {
        // It may have ended since.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_cannot_forge_the_parent() {
        assert_eq!(parent_in("7 (a) R 1 (b) S 42 7 7 0"), Some(42));
        assert_eq!(parent_in("7 (x y) Z 42 7 7 0"), None);
        assert_eq!(parent_in("7 (x"), None);
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_lives_on() {
        let script = "import ctypes, threading, time\n\
             threading.Thread(target=time.sleep, args=(60,)).start()\n\
             ctypes.CDLL(None).pthread_exit(None)";
        let mut child = std::process::Command::new("python3")
            .args(["-c", script])
            .spawn()
            .unwrap();
        let me = i32::try_from(std::process::id()).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let is_zombie = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            stat.contains(") Z ")
        };
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !is_zombie() && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(is_zombie());
        assert!(descendants(me).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(me).contains(&pid));
    }

    #[test]
    fn a_child_is_below_its_parent() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let me = i32::try_from(std::process::id()).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(descendants(me).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(me).contains(&pid));
    }
}
