//! cgroup v1: a hierarchy for each controller or a few.

use std::{fs, io, path::Path};

use sandbox_core::Limits;

use super::{Controllers, Place, Version, find::Hierarchies, remove_remains, write};

const PERIOD_US: u64 = 100_000;

/// Makes the service's group for each controller that v2 does not have.
pub(super) fn set_up(found: &Hierarchies, name: &str, controllers: &mut Controllers) {
    for hierarchy in &found.v1 {
        let mut made = false;
        for controller in &hierarchy.controllers {
            let Some(slot) = slot(controllers, controller).filter(|slot| slot.is_none()) else {
                continue;
            };
            if !made {
                remove_remains(&hierarchy.own);
                let dir = hierarchy.own.join(name);
                if let Err(error) = fs::create_dir(&dir) {
                    tracing::debug!(%error, "cannot use the cgroup `{}`", dir.display());
                    break;
                }
                made = true;
            }
            *slot = Some(Place {
                version: Version::V1,
                dir: hierarchy.own.join(name),
            });
        }
    }
}

fn slot<'a>(controllers: &'a mut Controllers, name: &str) -> Option<&'a mut Option<Place>> {
    match name {
        "memory" => Some(&mut controllers.memory),
        "cpu" => Some(&mut controllers.cpu),
        "pids" => Some(&mut controllers.pids),
        "cpuacct" => Some(&mut controllers.cpuacct),
        _ => None,
    }
}

pub(super) fn limit_memory(dir: &Path, limits: &Limits) -> io::Result<()> {
    let bytes = limits.memory.bytes();
    write(&dir.join("memory.limit_in_bytes"), bytes)?;
    // Memory and swap together, so that nothing is swapped beyond the limit.
    let with_swap = dir.join("memory.memsw.limit_in_bytes");
    if with_swap.exists() {
        write(&with_swap, bytes)?;
    }
    Ok(())
}

pub(super) fn limit_cpu(dir: &Path, limits: &Limits) -> io::Result<()> {
    write(&dir.join("cpu.cfs_period_us"), PERIOD_US)?;
    write(
        &dir.join("cpu.cfs_quota_us"),
        super::quota(limits, PERIOD_US),
    )
}

#[cfg(test)]
mod tests {
    use sandbox_core::ByteSize;

    use super::*;

    #[test]
    fn limits_are_written_to_the_files_of_v1() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let limits = Limits {
            memory: ByteSize::mib(64),
            cpus: 0.5,
            ..Limits::default()
        };
        limit_memory(dir.path(), &limits).unwrap();
        assert!(!dir.path().join("memory.memsw.limit_in_bytes").exists());
        fs::write(dir.path().join("memory.memsw.limit_in_bytes"), "").unwrap();
        limit_memory(dir.path(), &limits).unwrap();
        limit_cpu(dir.path(), &limits).unwrap();
        assert_eq!(
            [
                "memory.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
                "cpu.cfs_period_us",
                "cpu.cfs_quota_us"
            ]
            .map(read),
            ["67108864", "67108864", "100000", "50000"]
        );
    }
}
