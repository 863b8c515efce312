//! Where cgroups are mounted, and in which of them this process is.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// v1 only: `memory`, `cpu` and so on.
    pub controllers: Vec<String>,
    pub mount: PathBuf,
    /// This process's group.
    pub own: PathBuf,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hierarchies {
    pub v1: Vec<Hierarchy>,
    pub v2: Option<Hierarchy>,
}

impl Hierarchies {
    pub fn read() -> io::Result<Self> {
        Ok(Self::parse(
            &fs::read_to_string("/proc/self/mountinfo")?,
            &fs::read_to_string("/proc/self/cgroup")?,
        ))
    }

    /// From the contents of /proc/self/mountinfo and /proc/self/cgroup.
    pub fn parse(mountinfo: &str, cgroup: &str) -> Self {
        let mut found = Self::default();
        for line in mountinfo.lines() {
            let Some(mount) = Mount::parse(line) else {
                continue;
            };
            let is_v2 = mount.kind == "cgroup2";
            let wanted: Vec<String> = mount.options.split(',').map(str::to_owned).collect();
            // `hierarchy:controllers:path`; v2 has no controllers.
            let own = cgroup.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let names = fields.next()?;
                let path = fields.next()?;
                let matches = match is_v2 {
                    true => names.is_empty(),
                    false => names
                        .split(',')
                        .any(|name| wanted.iter().any(|option| option == name)),
                };
                matches.then_some((names, path))
            });
            let Some((names, path)) = own else {
                continue;
            };
            let hierarchy = Hierarchy {
                controllers: names.split(',').map(str::to_owned).collect(),
                own: mount.locate(path),
                mount: mount.point,
            };
            if is_v2 {
                found.v2.get_or_insert(hierarchy);
            } else if !found
                .v1
                .iter()
                .any(|known| known.controllers == hierarchy.controllers)
            {
                found.v1.push(hierarchy);
            }
        }
        found
    }
}

struct Mount<'a> {
    kind: &'a str,
    /// The directory of the hierarchy that is seen at `point`.
    root: PathBuf,
    point: PathBuf,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        // proc_pid_mountinfo(5): optional fields end with a lone hyphen.
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        let mount = Self {
            root: unescape(before.next()?).into(),
            point: unescape(before.next()?).into(),
            kind: after.next()?,
            options: after.nth(1)?,
        };
        mount.kind.starts_with("cgroup").then_some(mount)
    }

    /// Where the group `path` of this hierarchy is in the file system.
    fn locate(&self, path: &str) -> PathBuf {
        let path = Path::new(path);
        // In a container the mount may show only the container's part.
        let inside = path.strip_prefix(&self.root).unwrap_or(Path::new(""));
        self.point.join(inside)
    }
}

fn unescape(field: &str) -> String {
    field
        .replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v1(controllers: &[&str], mount: &str, own: &str) -> Hierarchy {
        Hierarchy {
            controllers: controllers.iter().map(|name| name.to_string()).collect(),
            mount: mount.into(),
            own: own.into(),
        }
    }

    #[test]
    fn a_hybrid_machine_has_both() {
        let found = Hierarchies::parse(
            "30 25 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n\
             31 30 0:27 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n\
             33 30 0:29 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory\n\
             34 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             35 30 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n",
            "9:name=systemd:/a\n4:memory:/user.slice\n2:cpu,cpuacct:/\n0::/user.slice/x.scope\n",
        );
        assert_eq!(
            found,
            Hierarchies {
                v1: vec![
                    v1(
                        &["memory"],
                        "/sys/fs/cgroup/memory",
                        "/sys/fs/cgroup/memory/user.slice"
                    ),
                    v1(
                        &["cpu", "cpuacct"],
                        "/sys/fs/cgroup/cpu,cpuacct",
                        "/sys/fs/cgroup/cpu,cpuacct/"
                    ),
                    v1(
                        &["name=systemd"],
                        "/sys/fs/cgroup/systemd",
                        "/sys/fs/cgroup/systemd/a"
                    ),
                ],
                v2: Some(v1(
                    &[""],
                    "/sys/fs/cgroup/unified",
                    "/sys/fs/cgroup/unified/user.slice/x.scope"
                )),
            }
        );
    }

    #[test]
    fn in_a_container_the_mount_is_the_containers_part() {
        let found = Hierarchies::parse(
            "33 30 0:29 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             34 30 0:30 / /sys/fs/cg\\040roup rw - cgroup2 cgroup rw\n",
            "4:memory:/docker/1/sub\n0::/\n",
        );
        assert_eq!(found.v1[0].own, Path::new("/sys/fs/cgroup/memory/sub"));
        assert_eq!(found.v2.unwrap().own, Path::new("/sys/fs/cg roup"));
    }
}
