//! Limits on whole sandboxes, by cgroup v2 or v1.
//!
//! Each controller is looked for by itself: on a machine that has moved only some
//! of them to v2 the others are still found. A controller that is nowhere is left
//! to the rlimits that the guest sets.
//!
//! ```text
//! <hierarchy>/<base>/sandboxd.<pid>.<start>.<n>/   the service's
//!                      <sandbox id>.<n>/           one sandbox's
//! ```

mod find;
mod group;
mod version1;
mod version2;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use sandbox_core::{Enforcement, Limits, SandboxId};

pub(crate) use group::Group;

use crate::error::{Context as _, Result};

const PREFIX: &str = "sandboxd.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

impl Version {
    fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "cgroup v1",
            Self::V2 => "cgroup v2",
        }
    }
}

/// A directory of one hierarchy in which groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub version: Version,
    pub dir: PathBuf,
}

/// Where each controller is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Controllers {
    pub memory: Option<Place>,
    pub cpu: Option<Place>,
    pub pids: Option<Place>,
    /// Counts CPU time where v1 keeps that apart.
    pub cpuacct: Option<Place>,
}

impl Controllers {
    fn all(&self) -> impl Iterator<Item = &Place> {
        [&self.memory, &self.cpu, &self.pids, &self.cpuacct]
            .into_iter()
            .flatten()
    }

    /// Each directory once: several controllers may share a hierarchy.
    fn dirs(&self) -> Vec<&Path> {
        let mut dirs: Vec<&Path> = self.all().map(|place| place.dir.as_path()).collect();
        dirs.sort_unstable();
        dirs.dedup();
        dirs
    }

    /// The same controllers, in `name` below.
    fn below(&self, name: &str) -> Self {
        let below = |place: &Option<Place>| {
            place.as_ref().map(|place| Place {
                version: place.version,
                dir: place.dir.join(name),
            })
        };
        Self {
            memory: below(&self.memory),
            cpu: below(&self.cpu),
            pids: below(&self.pids),
            cpuacct: below(&self.cpuacct),
        }
    }
}

/// The service's groups, removed with it.
#[derive(Debug)]
pub(crate) struct Cgroups {
    controllers: Controllers,
    next_name: AtomicU64,
}

impl Cgroups {
    /// Finds what this machine lets us use, and removes what dead services left.
    pub fn set_up() -> Self {
        let found = find::Hierarchies::read().unwrap_or_default();
        let name = instance_name();
        let mut controllers = version2::set_up(&found, &name);
        version1::set_up(&found, &name, &mut controllers);
        Self {
            controllers,
            next_name: AtomicU64::new(0),
        }
    }

    pub fn limits_memory(&self) -> bool {
        self.controllers.memory.is_some()
    }

    pub fn limits_all(&self) -> bool {
        let Controllers {
            memory, cpu, pids, ..
        } = &self.controllers;
        memory.is_some() && cpu.is_some() && pids.is_some()
    }

    pub fn limits_pids(&self) -> bool {
        self.controllers.pids.is_some()
    }

    pub fn enforcement(&self) -> Enforcement {
        let by = |place: &Option<Place>, else_by| {
            place
                .as_ref()
                .map_or(else_by, |place| place.version.as_str())
        };
        Enforcement::from([
            (
                "memory",
                by(&self.controllers.memory, "rlimit (per process)"),
            ),
            ("cpus", by(&self.controllers.cpu, "none")),
            ("pids", by(&self.controllers.pids, "rlimit (per user)")),
            ("disk", "rlimit and watch"),
            ("tmp", "tmpfs"),
        ])
    }

    /// Makes the groups of one sandbox, still without a limit.
    pub fn make(&self, id: &SandboxId) -> Result<Group> {
        // A number, for an earlier sandbox's groups may still be on their way out.
        let n = self.next_name.fetch_add(1, Ordering::Relaxed);
        let group = Group::new(self.controllers.below(&format!("{id}.{n}")));
        for dir in group.dirs() {
            fs::create_dir(dir)
                .context(|| format!("failed to make the cgroup `{}`", dir.display()))?;
        }
        Ok(group)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for dir in self.controllers.dirs() {
            // One that is still in use is removed by the next service.
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Names this service, and nothing else that ever ran on this machine.
fn instance_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let pid = std::process::id();
    let start = start_time(pid).unwrap_or_default();
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{pid}.{start}.{n}")
}

/// When a process was started, in ticks; with its id it is unique.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may hold anything, a `)` included.
    let after_name = stat.rsplit_once(')')?.1;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

fn is_alive(name: &str) -> bool {
    let mut parts = name.trim_start_matches(PREFIX).split('.');
    let mut next = || parts.next()?.parse::<u64>().ok();
    let (Some(pid), Some(start)) = (next(), next()) else {
        // Not named by us: leave it alone.
        return true;
    };
    u32::try_from(pid).is_ok_and(|pid| start_time(pid) == Some(start))
}

/// Removes the groups of dead services in `base`; those with a process stay.
fn remove_remains(base: &Path) {
    let Ok(found) = fs::read_dir(base) else {
        return;
    };
    for entry in found.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
            continue;
        };
        if is_alive(name) {
            continue;
        }
        let left = subdirs(&entry.path());
        for dir in left.iter().chain([&entry.path()]) {
            if let Err(error) = fs::remove_dir(dir) {
                tracing::debug!(%error, "left the cgroup `{}`", dir.display());
            }
        }
    }
}

fn subdirs(dir: &Path) -> Vec<PathBuf> {
    let Ok(found) = fs::read_dir(dir) else {
        return Vec::new();
    };
    found
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// CPU time in each period.
fn quota(limits: &Limits, period_us: u64) -> u64 {
    // The kernel takes no less than a millisecond.
    ((limits.cpus * period_us as f64) as u64).max(1000)
}

fn write(path: &Path, value: impl ToString) -> io::Result<()> {
    fs::write(path, value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_service_is_told_from_a_dead_one() {
        assert!(is_alive(&instance_name()));
        let start = start_time(std::process::id()).unwrap();
        let pid = std::process::id();
        assert!(!is_alive(&format!("sandboxd.{pid}.{}.0", start + 1)));
        assert!(!is_alive("sandboxd.4194399.1.0"));
        assert!(is_alive("sandboxd.service"), "not ours, so not dead");
    }

    #[test]
    fn only_the_groups_of_dead_services_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let dead = base.path().join("sandboxd.4194399.1.0");
        let alive = base.path().join(instance_name());
        let other = base.path().join("user.slice");
        for dir in [&dead.join("sandbox"), &alive, &other] {
            fs::create_dir_all(dir).unwrap();
        }
        remove_remains(base.path());
        assert!(!dead.exists());
        assert!(alive.exists() && other.exists());
    }

    #[test]
    fn controllers_that_share_a_hierarchy_share_a_group() {
        let place = |dir: &str| {
            Some(Place {
                version: Version::V1,
                dir: dir.into(),
            })
        };
        let controllers = Controllers {
            memory: place("/m"),
            cpu: place("/c"),
            pids: None,
            cpuacct: place("/c"),
        };
        assert_eq!(
            controllers.below("x").dirs(),
            [Path::new("/c/x"), Path::new("/m/x")]
        );
    }

    #[test]
    fn enforcement_names_the_mechanism_of_each_limit() {
        let none = Cgroups {
            controllers: Controllers::default(),
            next_name: AtomicU64::new(0),
        };
        assert_eq!(
            none.enforcement(),
            Enforcement::from([
                ("memory", "rlimit (per process)"),
                ("cpus", "none"),
                ("pids", "rlimit (per user)"),
                ("disk", "rlimit and watch"),
                ("tmp", "tmpfs"),
            ])
        );
    }
}
