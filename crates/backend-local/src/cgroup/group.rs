//! The groups of one sandbox.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_backend::Usage;
use sandbox_core::Limits;

use super::{Controllers, Version, version1, version2, write};
use crate::error::{Context as _, Result};

/// How long killed processes may take to leave.
const END_LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct Group {
    controllers: Controllers,
    /// Kept from the last look, for the files go before the questions end.
    oom_kills_at_end: OnceLock<Option<u64>>,
}

impl Group {
    pub(super) fn new(controllers: Controllers) -> Self {
        Self {
            controllers,
            oom_kills_at_end: OnceLock::new(),
        }
    }

    pub fn dirs(&self) -> Vec<&Path> {
        self.controllers.dirs()
    }

    /// Sets every limit that a controller is there for; one that cannot be set
    /// is an error.
    pub fn set_limits(&self, limits: &Limits) -> Result<()> {
        type Set = fn(&Path, &Limits) -> io::Result<()>;
        let Controllers {
            memory, cpu, pids, ..
        } = &self.controllers;
        let all: [(_, &str, Set, Set); 3] = [
            (
                memory,
                "memory",
                version1::limit_memory,
                version2::limit_memory,
            ),
            (cpu, "CPU", version1::limit_cpu, version2::limit_cpu),
            (pids, "process", limit_pids, limit_pids),
        ];
        for (place, what, v1, v2) in all {
            let Some(place) = place else { continue };
            let set = match place.version {
                Version::V1 => v1,
                Version::V2 => v2,
            };
            set(&place.dir, limits).context(|| {
                format!(
                    "failed to set the {what} limit in `{}`",
                    place.dir.display()
                )
            })?;
        }
        Ok(())
    }

    /// The files by which a process joins: it writes `0` to each.
    pub fn join_files(&self) -> Result<Vec<File>> {
        self.dirs()
            .into_iter()
            .map(|dir| {
                OpenOptions::new()
                    .write(true)
                    .open(dir.join("cgroup.procs"))
                    .context(|| format!("failed to open the cgroup `{}`", dir.display()))
            })
            .collect()
    }

    pub fn oom_kills(&self) -> Option<u64> {
        if let Some(kills) = self.oom_kills_at_end.get() {
            return *kills;
        }
        let memory = self.controllers.memory.as_ref()?;
        let file = match memory.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        value_of(&memory.dir.join(file), "oom_kill")
    }

    pub fn usage(&self) -> Usage {
        let Controllers {
            memory,
            pids,
            cpuacct,
            ..
        } = &self.controllers;
        let memory_bytes = memory.as_ref().and_then(|place| {
            // What can be given back at once is no use of the sandbox's.
            let (used, reclaimable) = match place.version {
                Version::V1 => ("memory.usage_in_bytes", "total_inactive_file"),
                Version::V2 => ("memory.current", "inactive_file"),
            };
            let used = number(&place.dir.join(used))?;
            let reclaimable = value_of(&place.dir.join("memory.stat"), reclaimable);
            Some(used.saturating_sub(reclaimable.unwrap_or(0)))
        });
        let v2 = || {
            let place = self.controllers.all().find(|p| p.version == Version::V2)?;
            let micros = value_of(&place.dir.join("cpu.stat"), "usage_usec")?;
            Some(Duration::from_micros(micros))
        };
        let cpu = match cpuacct {
            Some(place) => number(&place.dir.join("cpuacct.usage")).map(Duration::from_nanos),
            None => v2(),
        };
        Usage {
            memory_bytes,
            cpu_seconds: cpu.map(|time| time.as_secs_f64()),
            pids: pids
                .as_ref()
                .and_then(|place| number(&place.dir.join("pids.current")))
                .and_then(|count| u32::try_from(count).ok()),
        }
    }

    /// Kills what is left and removes the groups. Blocks until that is done.
    pub fn end(&self) -> Result<()> {
        self.oom_kills_at_end.get_or_init(|| self.oom_kills());
        let until = Instant::now() + END_LIMIT;
        for dir in self.dirs() {
            loop {
                match fs::remove_dir(dir) {
                    Ok(()) => break,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                    Err(error) if Instant::now() > until => {
                        return Err(error).context(|| {
                            format!("failed to remove the cgroup `{}`", dir.display())
                        });
                    }
                    // Somebody is still in it: busy.
                    Err(_) => kill_members(dir),
                }
                thread::sleep(POLL);
            }
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for dir in self.dirs() {
            let _ = fs::remove_dir(dir);
        }
    }
}

fn kill_members(dir: &Path) {
    let kill = dir.join("cgroup.kill");
    if kill.exists() && write(&kill, 1).is_ok() {
        return;
    }
    let members = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines().filter_map(|line| line.parse().ok()) {
        // 0 stands for a process that this PID namespace cannot see.
        if let Some(pid) = Pid::from_raw(pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn limit_pids(dir: &Path, limits: &Limits) -> io::Result<()> {
    write(&dir.join("pids.max"), limits.pids)
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The value after `key` in a file of `key value` lines.
fn value_of(path: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = |line: &str| {
        line.strip_prefix(key)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    };
    text.lines().find_map(line)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use sandbox_core::ByteSize;

    use super::*;
    use crate::cgroup::{Cgroups, Place};

    fn files(version: Version, files: &[(&str, &str)]) -> (tempfile::TempDir, Group) {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(dir.path().join(name), content).unwrap();
        }
        let place = Some(Place {
            version,
            dir: dir.path().to_owned(),
        });
        let group = Group::new(Controllers {
            memory: place.clone(),
            cpu: place.clone(),
            pids: place.clone(),
            cpuacct: place.filter(|place| place.version == Version::V1),
        });
        (dir, group)
    }

    #[test]
    fn use_is_read_from_the_files_of_v2() {
        let (_dir, group) = files(
            Version::V2,
            &[
                (
                    "memory.events",
                    "low 0\noom 9\noom_kill 3\noom_group_kill 0\n",
                ),
                ("memory.current", "5000\n"),
                ("memory.stat", "anon 1\ninactive_file 1000\n"),
                ("cpu.stat", "usage_usec 2500000\nuser_usec 1\n"),
                ("pids.current", "7\n"),
            ],
        );
        assert_eq!(group.oom_kills(), Some(3));
        let usage = Usage {
            memory_bytes: Some(4000),
            cpu_seconds: Some(2.5),
            pids: Some(7),
        };
        assert_eq!(group.usage(), usage);
    }

    #[test]
    fn use_is_read_from_the_files_of_v1() {
        let (_dir, group) = files(
            Version::V1,
            &[
                (
                    "memory.oom_control",
                    "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
                ),
                ("memory.usage_in_bytes", "5000\n"),
                ("memory.stat", "inactive_file 1\ntotal_inactive_file 2000\n"),
                ("cpuacct.usage", "1500000000\n"),
                ("pids.current", "1\n"),
            ],
        );
        assert_eq!(group.oom_kills(), Some(2));
        let usage = Usage {
            memory_bytes: Some(3000),
            cpu_seconds: Some(1.5),
            pids: Some(1),
        };
        assert_eq!(group.usage(), usage);
    }

    fn join(group: &Group, child: &Child) {
        for dir in group.dirs() {
            write(&dir.join("cgroup.procs"), child.id()).unwrap();
        }
    }

    #[test]
    fn a_real_group_counts_limits_and_ends_its_processes() {
        let cgroups = Cgroups::set_up();
        if !cgroups.limits_memory() || !cgroups.limits_pids() {
            eprintln!("this machine has no cgroup that may be changed");
            return;
        }
        let id = "0123456789abcdef0123456789abcdef".parse().unwrap();
        let group = cgroups.make(&id).unwrap();
        let limits = Limits {
            memory: ByteSize::mib(32),
            pids: 4,
            ..Limits::default()
        };
        group.set_limits(&limits).unwrap();
        let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
        join(&group, &sleeper);
        assert_eq!(group.usage().pids, Some(1));

        let mut bomb = Command::new("sh")
            .args([
                "-c",
                "read go; exec dd if=/dev/zero of=/dev/null bs=256M count=1",
            ])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        join(&group, &bomb);
        drop(bomb.stdin.take());
        assert!(!bomb.wait().unwrap().success());
        assert_eq!(group.oom_kills(), Some(1));

        let dirs: Vec<_> = group.dirs().into_iter().map(Path::to_owned).collect();
        let reaper = thread::spawn(move || sleeper.wait().unwrap());
        group.end().unwrap();
        assert!(!reaper.join().unwrap().success());
        assert!(dirs.iter().all(|dir| !dir.exists()));
        assert_eq!(group.oom_kills(), Some(1), "remembered after the end");
        drop((group, cgroups));
        let parents = dirs.iter().filter_map(|dir| dir.parent());
        assert_eq!(parents.filter(|dir| dir.exists()).count(), 0);
    }
}
