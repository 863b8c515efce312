//! How much of its disk the workspace takes.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use connectrpc::ConnectError;
use rustix::process::Pid;
use sandbox_wire::sandbox::v1::{UsageRequest, UsageResponse};

use crate::{beside, blocking::Caller, cgroup};

/// A larger workspace is counted in part, and said to be.
const TIME: Duration = Duration::from_millis(500);
/// Folders that wait for their turn: their paths take memory of the sandbox's own.
const MAX_OPEN: usize = 50_000;
/// Of a block, as stat(2) counts them.
const BLOCK_BYTES: u64 = 512;

pub(crate) fn usage(
    workspace: &Path,
    _: &UsageRequest,
    caller: &Caller,
) -> Result<UsageResponse, ConnectError> {
    let place = match rustix::process::getpid() == Pid::INIT {
        true => cgroup::used(),
        false => beside::used(),
    };
    let used = measure(workspace, TIME, || caller.is_gone()).used;
    caller.check()?;
    Ok(UsageResponse {
        memory_bytes: place.memory_bytes,
        cpu_us: place.cpu_us,
        pids: place.pids,
        ..used
    })
}

pub(crate) struct Measured {
    pub used: UsageResponse,
    /// Some of it lies deeper than a path can say.
    pub too_deep: bool,
}

/// What a folder takes of the disk, as far as that can be seen in the time.
pub(crate) fn measure(
    folder: &Path,
    within: Duration,
    is_pointless: impl Fn() -> bool,
) -> Measured {
    let mut count = Count {
        until: Instant::now() + within,
        open: vec![folder.to_owned()],
        used: UsageResponse {
            complete: true,
            ..Default::default()
        },
    };
    let mut too_deep = false;
    while let Some(folder) = count.open.pop() {
        match count.add(&folder) {
            _ if is_pointless() => break,
            Err(error) if !has_gone(&error) => {
                count.used.complete = false;
                match error.kind() {
                    io::ErrorKind::PermissionDenied => {}
                    io::ErrorKind::InvalidFilename => too_deep = true,
                    _ => break,
                }
            }
            _ => {}
        }
    }
    Measured {
        used: count.used,
        too_deep,
    }
}

struct Count {
    until: Instant,
    open: Vec<PathBuf>,
    used: UsageResponse,
}

impl Count {
    /// An error when not all can be counted: a folder that may not be read, or lies
    /// deeper than a path can say, must not look as if it were empty.
    fn add(&mut self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            // Not once for each folder: a single one may have millions.
            if Instant::now() > self.until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let entry = entry?;
            // Of a link, not of what it leads to.
            let about = match entry.metadata() {
                Err(error) if has_gone(&error) => continue,
                about => about?,
            };
            let bytes = about.blocks() * BLOCK_BYTES;
            self.used.entries += 1;
            if !about.is_dir() {
                // A file of several names counts with a share at each.
                self.used.disk_bytes += bytes / about.nlink().max(1);
                continue;
            }
            self.used.disk_bytes += bytes;
            if self.open.len() >= MAX_OPEN {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.open.push(entry.path());
        }
        Ok(())
    }
}

/// What goes away meanwhile takes nothing any more.
fn has_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_folder_is_left_when_the_time_is_over() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "a").unwrap();
        let count = |until| {
            let mut count = Count {
                until,
                open: Vec::new(),
                used: UsageResponse::default(),
            };
            let added = count.add(folder.path()).map_err(|error| error.kind());
            (added, count.used.entries)
        };
        let now = Instant::now();
        assert_eq!(count(now + TIME), (Ok(()), 1));
        let over = now.checked_sub(TIME).unwrap();
        assert_eq!(count(over), (Err(io::ErrorKind::TimedOut), 0));
    }
}
