//! cgroup v2: one hierarchy, of which a part is delegated to us.

use std::{fs, io, path::Path};

use sandbox_core::Limits;

use super::{Controllers, Place, Version, find::Hierarchies, remove_remains, write};

const PERIOD_US: u64 = 100_000;
const WANTED: [&str; 3] = ["memory", "cpu", "pids"];

/// Makes the service's group where it can, with the controllers that are there.
pub(super) fn set_up(found: &Hierarchies, name: &str) -> Controllers {
    let Some(hierarchy) = &found.v2 else {
        return Controllers::default();
    };
    // The root group may hold processes beside its children, any other may not;
    // so root tries that one first and need not move.
    for base in [&hierarchy.mount, &hierarchy.own] {
        let inside = (*base == hierarchy.own).then(std::process::id);
        match prepare(base, inside, name, &WANTED) {
            Ok(enabled) if !enabled.is_empty() => {
                let place = |controller: &str| {
                    enabled
                        .iter()
                        .any(|name| name == controller)
                        .then(|| Place {
                            version: Version::V2,
                            dir: base.join(name),
                        })
                };
                return Controllers {
                    memory: place("memory"),
                    cpu: place("cpu"),
                    pids: place("pids"),
                    cpuacct: None,
                };
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "cannot use the cgroup `{}`", base.display()),
        }
    }
    Controllers::default()
}

/// Makes `name` in `base` and gives the controllers that groups in it will have.
/// `inside` is the service, if it is in `base` itself.
fn prepare(
    base: &Path,
    inside: Option<u32>,
    name: &str,
    wanted: &[&str],
) -> io::Result<Vec<String>> {
    let available = words(&base.join("cgroup.controllers"))?;
    let wanted: Vec<&str> = wanted
        .iter()
        .copied()
        .filter(|controller| available.iter().any(|name| name == controller))
        .collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    remove_remains(base);
    match (enable(base, &wanted), inside) {
        (Err(error), Some(pid)) if error.kind() == io::ErrorKind::ResourceBusy => {
            enable_from_leaf(base, pid, name, &wanted)?;
        }
        (other, _) => other?,
    }
    let dir = base.join(name);
    fs::create_dir(&dir)?;
    let enabled = enable(&dir, &wanted).and_then(|()| words(&dir.join("cgroup.subtree_control")));
    if enabled.is_err() {
        let _ = fs::remove_dir(&dir);
    }
    enabled
}

/// A group that has processes cannot have controllers for its children ("no
/// internal processes", cgroups(7)), so the service moves to a child first.
fn enable_from_leaf(base: &Path, pid: u32, name: &str, wanted: &[&str]) -> io::Result<()> {
    let leaf = base.join(format!("{name}.self"));
    fs::create_dir(&leaf)?;
    let enabled = write(&leaf.join("cgroup.procs"), pid).and_then(|()| enable(base, wanted));
    if enabled.is_err() {
        // Others stayed behind, and they are not ours to move.
        let _ = write(&base.join("cgroup.procs"), pid);
        let _ = fs::remove_dir(&leaf);
    }
    enabled
}

fn enable(dir: &Path, wanted: &[&str]) -> io::Result<()> {
    let file = dir.join("cgroup.subtree_control");
    let enabled = words(&file)?;
    for controller in wanted {
        if !enabled.iter().any(|name| name == controller) {
            write(&file, format!("+{controller}"))?;
        }
    }
    Ok(())
}

fn words(path: &Path) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(path)?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

pub(super) fn limit_memory(dir: &Path, limits: &Limits) -> io::Result<()> {
    write(&dir.join("memory.max"), limits.memory.bytes())?;
    let swap = dir.join("memory.swap.max");
    if swap.exists() {
        write(&swap, 0)?;
    }
    Ok(())
}

pub(super) fn limit_cpu(dir: &Path, limits: &Limits) -> io::Result<()> {
    let quota = super::quota(limits, PERIOD_US);
    write(&dir.join("cpu.max"), format!("{quota} {PERIOD_US}"))
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, process::Command};

    use sandbox_core::ByteSize;

    use super::*;

    #[test]
    fn limits_are_written_to_the_files_of_v2() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let limits = Limits {
            memory: ByteSize::mib(64),
            cpus: 1.5,
            ..Limits::default()
        };
        fs::write(dir.path().join("memory.swap.max"), "max").unwrap();
        limit_memory(dir.path(), &limits).unwrap();
        limit_cpu(dir.path(), &limits).unwrap();
        assert_eq!(
            ["memory.max", "memory.swap.max", "cpu.max"].map(read),
            ["67108864", "0", "150000 100000"]
        );
    }

    /// A group of the machine's own v2 hierarchy with one controller in it, and
    /// that controller; none where the machine has no v2 that may be changed.
    fn real_base(name: &str) -> Option<(PathBuf, String)> {
        let hierarchy = Hierarchies::read().ok()?.v2?;
        let controller = words(&hierarchy.own.join("cgroup.controllers"))
            .ok()?
            .pop()?;
        enable(&hierarchy.own, &[&controller]).ok()?;
        let base = hierarchy.own.join(format!("{name}.{}", std::process::id()));
        fs::create_dir(&base).ok()?;
        Some((base, controller))
    }

    #[test]
    fn a_real_group_hands_its_controllers_on() {
        let Some((base, controller)) = real_base("prepare-test") else {
            eprintln!("this machine has no cgroup v2 that may be changed");
            return;
        };
        let enabled = prepare(&base, None, "sandboxd.0.0.0", &[&controller, "none"]);
        assert_eq!(enabled.unwrap(), [controller.as_str()]);
        let sandbox = base.join("sandboxd.0.0.0/sandbox");
        fs::create_dir(&sandbox).unwrap();
        assert_eq!(
            words(&sandbox.join("cgroup.controllers")).unwrap(),
            [controller]
        );
        for dir in [sandbox, base.join("sandboxd.0.0.0"), base] {
            fs::remove_dir(dir).unwrap();
        }
    }

    #[test]
    fn a_service_in_the_way_of_its_own_controllers_moves_to_a_leaf() {
        let Some((base, controller)) = real_base("leaf-test") else {
            eprintln!("this machine has no cgroup v2 that may be changed");
            return;
        };
        let mut service = Command::new("sleep").arg("1000").spawn().unwrap();
        write(&base.join("cgroup.procs"), service.id()).unwrap();
        let enabled = prepare(&base, Some(service.id()), "sandboxd.0.0.0", &[&controller]);
        let leaf = base.join("sandboxd.0.0.0.self");
        let moved = fs::read_to_string(leaf.join("cgroup.procs"));
        service.kill().unwrap();
        service.wait().unwrap();
        for dir in [leaf, base.join("sandboxd.0.0.0"), base.clone()] {
            let _ = fs::remove_dir(dir);
        }
        assert_eq!(enabled.unwrap(), [controller]);
        assert_eq!(moved.unwrap().trim(), service.id().to_string());
        assert!(!base.exists());
    }
}
