//! The processes below one process.

use std::{collections::HashMap, fs};

use rustix::process::{Pid, Signal, kill_process};

/// Parent of each process that is not a zombie, as /proc has it now.
fn parents() -> Vec<(i32, i32)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, parent_in(&stat)?))
        })
        .collect()
}

/// The parent in a line of /proc/PID/stat, unless the process is a zombie.
fn parent_in(stat: &str) -> Option<i32> {
    // The command's name is user input and may hold blanks and parentheses.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.next()?.parse().ok(),
    }
}

/// Every living process below `root`, `root` itself left out.
pub(crate) fn descendants(root: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in parents() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        if let Some(below) = children.remove(&parent) {
            found.extend(&below);
            next.extend(below);
        }
    }
    found
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
