//! Limits by control groups: version 2 where it is ours to use, else version 1.
//!
//! One base group for the service, and in it a group for each sandbox.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use sandbox_core::Limits;

const PERIOD_US: u64 = 100_000;
const PREFIX: &str = "sandboxd-";

/// What a controller limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    Memory,
    Pids,
    Cpu,
}

const CONTROLLERS: [(Controller, &str); 3] = [
    (Controller::Memory, "memory"),
    (Controller::Pids, "pids"),
    (Controller::Cpu, "cpu"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// The base groups of this service, one for each usable controller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cgroups {
    bases: Vec<(Controller, Version, PathBuf)>,
}

impl Cgroups {
    /// Finds what this process may use, and makes its base groups.
    pub fn find() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut bases = Vec::new();
        if let Some(base) = v2_base(&mounts, &groups) {
            let enabled = fs::read_to_string(base.join("cgroup.controllers")).unwrap_or_default();
            for (controller, name) in CONTROLLERS {
                if enabled.split_whitespace().any(|enabled| enabled == name) {
                    bases.push((controller, Version::V2, base.clone()));
                }
            }
        }
        for (controller, name) in CONTROLLERS {
            if bases.iter().all(|(found, ..)| *found != controller)
                && let Some(base) = v1_base(&mounts, &groups, name)
            {
                bases.push((controller, Version::V1, base));
            }
        }
        Self { bases }
    }

    /// Removes the base groups, which must be empty.
    pub fn remove(&self) {
        for (.., base) in &self.bases {
            let _ = fs::remove_dir(base);
        }
    }

    pub fn version(&self, controller: Controller) -> Option<Version> {
        self.bases
            .iter()
            .find(|(found, ..)| *found == controller)
            .map(|(_, version, _)| *version)
    }

    /// Makes the group of one sandbox, with its limits set.
    pub fn create(&self, name: &str, limits: &Limits) -> io::Result<Group> {
        let mut group = Group::default();
        for (controller, version, base) in &self.bases {
            let dir = base.join(name);
            if !group.dirs.iter().any(|(.., known)| *known == dir) {
                // Left by a sandbox that was still ending: its limits are set anew.
                match fs::create_dir(&dir) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    _ => {}
                }
            }
            set(*controller, *version, &dir, limits)?;
            group.dirs.push((*controller, *version, dir));
        }
        Ok(group)
    }
}

fn set(controller: Controller, version: Version, dir: &Path, limits: &Limits) -> io::Result<()> {
    let write = |file: &str, value: String| fs::write(dir.join(file), value);
    // Swap accounting is not in every kernel; without swap there is nothing to limit.
    let optional = |file: &str, value: String| match fs::write(dir.join(file), value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // Writing to a file that cgroupfs does not have is refused thus.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    };
    let memory = limits.memory.bytes();
    let quota = ((limits.cpus * PERIOD_US as f64) as u64).max(1000);
    match (controller, version) {
        (Controller::Memory, Version::V2) => {
            write("memory.max", memory.to_string())?;
            optional("memory.swap.max", "0".into())?;
            // One process of a sandbox is killed, not all of it.
            optional("memory.oom.group", "0".into())
        }
        (Controller::Memory, Version::V1) => {
            write("memory.limit_in_bytes", memory.to_string())?;
            optional("memory.memsw.limit_in_bytes", memory.to_string())
        }
        (Controller::Pids, _) => write("pids.max", limits.pids.to_string()),
        (Controller::Cpu, Version::V2) => write("cpu.max", format!("{quota} {PERIOD_US}")),
        (Controller::Cpu, Version::V1) => {
            write("cpu.cfs_period_us", PERIOD_US.to_string())?;
            write("cpu.cfs_quota_us", quota.to_string())
        }
    }
}

/// The groups of one sandbox; removed by [`Group::remove`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    dirs: Vec<(Controller, Version, PathBuf)>,
}

impl Group {
    fn paths(&self) -> Vec<&Path> {
        let mut paths: Vec<&Path> = self.dirs.iter().map(|(.., dir)| dir.as_path()).collect();
        paths.dedup();
        paths
    }

    /// Files to write `0` to in order to join.
    pub fn joins(&self) -> io::Result<Vec<File>> {
        let open = |dir: &Path| File::options().write(true).open(dir.join("cgroup.procs"));
        self.paths().into_iter().map(open).collect()
    }

    fn read(&self, controller: Controller, v2: &str, v1: &str) -> Option<String> {
        let (_, version, dir) = self.dirs.iter().find(|(found, ..)| *found == controller)?;
        let file = match version {
            Version::V2 => v2,
            Version::V1 => v1,
        };
        fs::read_to_string(dir.join(file)).ok()
    }

    /// Processes that the memory limit killed.
    pub fn oom_kills(&self) -> Option<u64> {
        let text = self.read(Controller::Memory, "memory.events", "memory.oom_control")?;
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill "))
            .and_then(|count| count.trim().parse().ok())
    }

    pub fn memory_bytes(&self) -> Option<u64> {
        let text = self.read(Controller::Memory, "memory.current", "memory.usage_in_bytes")?;
        text.trim().parse().ok()
    }

    pub fn cpu_seconds(&self) -> Option<f64> {
        let text = self.read(Controller::Cpu, "cpu.stat", "cpuacct.usage")?;
        match text.lines().find_map(|line| line.strip_prefix("usage_usec ")) {
            Some(micros) => Some(micros.trim().parse::<f64>().ok()? / 1e6),
            // Version 1 has nanoseconds, where cpuacct is mounted with cpu.
            None => Some(text.trim().parse::<f64>().ok()? / 1e9),
        }
    }

    pub fn pids(&self) -> Option<u32> {
        let text = self.read(Controller::Pids, "pids.current", "pids.current")?;
        text.trim().parse().ok()
    }

    fn processes(&self) -> Vec<i32> {
        self.paths()
            .into_iter()
            .filter_map(|dir| fs::read_to_string(dir.join("cgroup.procs")).ok())
            .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>())
            .collect()
    }

    /// Waits until no process is left, and removes the groups. Blocks.
    pub fn remove(&self) {
        for _ in 0..500 {
            for pid in self.processes() {
                if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
            let gone = |dir: &Path| match fs::remove_dir(dir) {
                Ok(()) => true,
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            };
            if self.paths().into_iter().map(gone).fold(true, |all, one| all && one) {
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Where a hierarchy is mounted, and the root of what is mounted there.
fn mount_point(mounts: &str, kind: &str, option: &str) -> Option<(PathBuf, String)> {
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        if right.next()? != kind {
            return None;
        }
        let options = right.nth(1).unwrap_or_default();
        if !option.is_empty() && !options.split(',').any(|found| found == option) {
            return None;
        }
        let mut left = left.split(' ').skip(3);
        let root = left.next()?.to_owned();
        Some((PathBuf::from(left.next()?), root))
    })
}

/// The group of this process in a hierarchy, as a folder.
fn own_group(mount: &Path, root: &str, group: &str) -> PathBuf {
    let below = group.strip_prefix(root.trim_end_matches('/')).unwrap_or(group);
    mount.join(below.trim_start_matches('/'))
}

fn base_name() -> String {
    format!("{PREFIX}{}", std::process::id())
}

/// Removes groups that services which have ended left under `parent`.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let dead = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok())
            .is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if dead {
            // A group that still has a process in it stays: rmdir refuses.
            for group in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                let _ = fs::remove_dir(group.path());
            }
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn v1_base(mounts: &str, groups: &str, controller: &str) -> Option<PathBuf> {
    let (mount, root) = mount_point(mounts, "cgroup", controller)?;
    let group = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let names = parts.next()?;
        names.split(',').any(|name| name == controller).then(|| parts.next())?
    })?;
    let own = own_group(&mount, &root, group);
    sweep(&own);
    let base = own.join(base_name());
    fs::create_dir(&base).ok()?;
    Some(base)
}

fn v2_base(mounts: &str, groups: &str) -> Option<PathBuf> {
    let (mount, root) = mount_point(mounts, "cgroup2", "")?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = own_group(&mount, &root, group);
    v2_base_in(&own)
}

fn v2_base_in(own: &Path) -> Option<PathBuf> {
    let available = fs::read_to_string(own.join("cgroup.controllers")).ok()?;
    let wanted: Vec<String> = CONTROLLERS
        .iter()
        .filter(|(_, name)| available.split_whitespace().any(|found| found == *name))
        .map(|(_, name)| format!("+{name}"))
        .collect();
    if wanted.is_empty() {
        return None;
    }
    sweep(own);
    let base = own.join(base_name());
    fs::create_dir(&base).ok()?;
    let enable = |dir: &Path| fs::write(dir.join("cgroup.subtree_control"), wanted.join(" "));
    if enable(own).is_err() {
        // A group with processes cannot share out controllers: step aside.
        let leaf = own.join("sandboxd-service");
        let _ = fs::create_dir(&leaf);
        let moved = fs::write(leaf.join("cgroup.procs"), std::process::id().to_string());
        if moved.and_then(|()| enable(own)).is_err() {
            let _ = fs::remove_dir(&base);
            return None;
        }
    }
    enable(&base).ok()?;
    Some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
30 25 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
34 30 0:30 /docker/abc /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
35 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct";

    #[test]
    fn hierarchies_are_found_by_their_options() {
        let found = mount_point(MOUNTS, "cgroup", "cpu");
        assert_eq!(found, Some(("/sys/fs/cgroup/cpu,cpuacct".into(), "/".into())));
        let (mount, root) = mount_point(MOUNTS, "cgroup", "memory").unwrap();
        assert_eq!(
            own_group(&mount, &root, "/docker/abc/x"),
            Path::new("/sys/fs/cgroup/memory/x")
        );
        assert_eq!(mount_point(MOUNTS, "cgroup", "pids"), None);
        let found = mount_point(MOUNTS, "cgroup2", "");
        assert_eq!(found, Some(("/sys/fs/cgroup/unified".into(), "/".into())));
    }

    #[test]
    fn version_2_writes_the_limits() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits::default();
        for (controller, _) in CONTROLLERS {
            set(controller, Version::V2, dir.path(), &limits).unwrap();
        }
        let read = |file: &str| fs::read_to_string(dir.path().join(file)).unwrap();
        assert_eq!(read("memory.max"), "536870912");
        assert_eq!(read("memory.swap.max"), "0");
        assert_eq!(read("pids.max"), "256");
        assert_eq!(read("cpu.max"), "100000 100000");
    }

    #[test]
    fn kills_by_the_memory_limit_are_counted_in_both_versions() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("memory.events"), "low 0\noom 4\noom_kill 3\n").unwrap();
        fs::write(dir.path().join("memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n").unwrap();
        for (version, kills) in [(Version::V2, 3), (Version::V1, 2)] {
            let group = Group {
                dirs: vec![(Controller::Memory, version, dir.path().into())],
            };
            assert_eq!(group.oom_kills(), Some(kills));
        }
    }
}
