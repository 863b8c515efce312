//! Opening files that user code had in its hands.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    os::{
        fd::AsFd,
        unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use connectrpc::ConnectError;
use rustix::fs::OFlags;
use sandbox_core::ErrorCode;

use crate::error::{error, from_io, not_regular};

/// statfs(2): files there are the kernel's, and some of them the guest's own.
const PROC_MAGIC: i64 = 0x9fa0;
const SYSFS_MAGIC: i64 = 0x6265_6572;

/// Opens a regular file. It never waits, not for a FIFO either, and follows
/// links: they lead nowhere but into the sandbox.
pub(crate) fn open(
    path: &Path,
    options: &mut OpenOptions,
    shown: &str,
) -> Result<(File, Metadata), ConnectError> {
    let fail = |cause| from_io(&cause, shown);
    // Opening a device may do something: look first. What is there may change
    // until it is opened, so it is looked at again then.
    if let Ok(found) = fs::metadata(path) {
        check(&found, shown)?;
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = options
        .custom_flags(flags.bits() as i32)
        .open(path)
        .map_err(fail)?;
    let found = file.metadata().map_err(fail)?;
    check(&found, shown)?;
    // A link may lead to /proc/self, which here is the guest and not the program.
    let kind = rustix::fs::fstatfs(file.as_fd()).map_err(|errno| from_io(&errno.into(), shown))?;
    if [PROC_MAGIC, SYSFS_MAGIC].contains(&kind.f_type) {
        return Err(not_regular(shown));
    }
    Ok((file, found))
}

fn check(found: &Metadata, shown: &str) -> Result<(), ConnectError> {
    if found.is_dir() {
        return Err(error(
            ErrorCode::IsADirectory,
            format!("`{shown}` is a directory"),
        ));
    }
    if !found.is_file() {
        return Err(not_regular(shown));
    }
    Ok(())
}

/// Where a file is put when `path` is written: what a link leads to, the link stays.
pub(crate) fn target(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = path.to_owned();
    // As many as the kernel follows.
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(next) => {
                let parent = path.parent().unwrap_or(Path::new("/"));
                path = parent.join(next);
            }
            Err(_) => return Ok(path),
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// Puts a whole file in place at once: nobody sees half of it.
pub(crate) fn replace(
    path: &Path,
    data: &[u8],
    mode: u32,
    shown: &str,
) -> Result<(), ConnectError> {
    let fail = |cause| from_io(&cause, shown);
    let path = target(path).map_err(fail)?;
    let parent = path.parent().unwrap_or(Path::new("/"));
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| from_io(&errno.into(), shown))?;
    let fresh = parent.join(format!(".write-{:016x}", u64::from_ne_bytes(random)));
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&fresh)?;
        std::io::Write::write_all(&mut file, data)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        fs::rename(&fresh, &path)
    })();
    written.map_err(|cause| {
        let _ = fs::remove_file(&fresh);
        fail(cause)
    })
}
