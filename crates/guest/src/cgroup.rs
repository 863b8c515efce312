//! What the sandbox's own cgroup counts, where the place shows it: a container has
//! it at the usual path, read-only.

use std::{
    fs,
    path::{Path, PathBuf},
};

const MOUNT: &str = "/sys/fs/cgroup";

/// Use of all processes together; absent what is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub memory_bytes: Option<u64>,
    pub cpu_us: Option<u64>,
    pub pids: Option<u32>,
}

/// Processes that the memory limit has killed.
pub(crate) fn oom_kills() -> Option<u64> {
    Cgroup::at(MOUNT).oom_kills()
}

pub(crate) fn used() -> Used {
    Cgroup::at(MOUNT).used()
}

struct Cgroup(PathBuf);

impl Cgroup {
    fn at(mount: impl AsRef<Path>) -> Self {
        Self(mount.as_ref().to_owned())
    }

    /// Version 2, then version 1.
    fn oom_kills(&self) -> Option<u64> {
        self.field("memory.events", "oom_kill")
            .or_else(|| self.field("memory/memory.oom_control", "oom_kill"))
    }

    fn used(&self) -> Used {
        let cpu_us = || {
            let nanos: u64 = self.number("cpuacct/cpuacct.usage")?;
            Some(nanos / 1000)
        };
        Used {
            memory_bytes: self
                .number("memory.current")
                .or_else(|| self.number("memory/memory.usage_in_bytes")),
            cpu_us: self.field("cpu.stat", "usage_usec").or_else(cpu_us),
            pids: self
                .number("pids.current")
                .or_else(|| self.number("pids/pids.current")),
        }
    }

    fn number<T: std::str::FromStr>(&self, file: &str) -> Option<T> {
        let text = fs::read_to_string(self.0.join(file)).ok()?;
        text.trim().parse().ok()
    }

    fn field(&self, file: &str, name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.0.join(file)).ok()?;
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(' ')?;
            (key == name).then(|| value.parse().ok())?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroup(files: &[(&str, &str)]) -> (tempfile::TempDir, Cgroup) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let cgroup = Cgroup::at(folder.path());
        (folder, cgroup)
    }

    #[test]
    fn both_versions_say_the_same() {
        let used = Used {
            memory_bytes: Some(4096),
            cpu_us: Some(70),
            pids: Some(3),
        };
        let (_folder, second) = cgroup(&[
            ("memory.events", "low 0\nmax 9\noom 2\noom_kill 1\n"),
            ("memory.current", "4096\n"),
            ("cpu.stat", "usage_usec 70\nuser_usec 60\n"),
            ("pids.current", "3\n"),
        ]);
        assert_eq!((second.oom_kills(), second.used()), (Some(1), used));
        let (_folder, first) = cgroup(&[
            (
                "memory/memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
            ),
            ("memory/memory.usage_in_bytes", "4096\n"),
            ("cpuacct/cpuacct.usage", "70999\n"),
            ("pids/pids.current", "3\n"),
        ]);
        assert_eq!((first.oom_kills(), first.used()), (Some(1), used));
    }

    #[test]
    fn what_is_not_shown_is_not_guessed() {
        let (_folder, none) = cgroup(&[]);
        assert_eq!((none.oom_kills(), none.used()), (None, Used::default()));
    }
}
