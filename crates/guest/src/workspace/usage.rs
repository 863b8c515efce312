//! How much of its disk the workspace takes.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use connectrpc::ConnectError;
use sandbox_wire::sandbox::v1::{UsageRequest, UsageResponse};

use crate::blocking::Caller;

/// A larger workspace is counted in part, and said to be.
const TIME: Duration = Duration::from_millis(500);
/// Of a block, as stat(2) counts them.
const BLOCK_BYTES: u64 = 512;

pub(crate) fn usage(
    workspace: &Path,
    _: &UsageRequest,
    caller: &Caller,
) -> Result<UsageResponse, ConnectError> {
    let until = Instant::now() + TIME;
    let mut used = UsageResponse {
        complete: true,
        ..Default::default()
    };
    let mut open = vec![workspace.to_owned()];
    while let Some(folder) = open.pop() {
        caller.check()?;
        if Instant::now() > until {
            used.complete = false;
            break;
        }
        // What goes away meanwhile takes nothing any more.
        let _ = add(&folder, &mut used, &mut open);
    }
    Ok(used)
}

fn add(folder: &Path, used: &mut UsageResponse, open: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Of a link, not of what it leads to.
        let Ok(about) = entry.metadata() else {
            continue;
        };
        let bytes = about.blocks() * BLOCK_BYTES;
        used.entries += 1;
        if about.is_dir() {
            used.disk_bytes += bytes;
            open.push(entry.path());
        } else {
            // A file of several names counts with a share at each.
            used.disk_bytes += bytes / about.nlink().max(1);
        }
    }
    Ok(())
}
