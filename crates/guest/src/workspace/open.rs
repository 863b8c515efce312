//! Opening what user code had in its hands.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    os::{fd::AsFd, unix::fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use connectrpc::ConnectError;
use rustix::fs::{OFlags, StatFs};
use sandbox_core::ErrorCode;

use crate::error::{error, from_io, is_a_directory, not_regular};

/// statfs(2): files there are the kernel's, and some of them the guest's own.
const PROC_MAGIC: i64 = 0x9fa0;
const SYSFS_MAGIC: i64 = 0x6265_6572;

/// A link may lead to /proc/self, which here is the guest and not the program.
fn check_kind(kind: &StatFs, shown: &str) -> Result<(), ConnectError> {
    if [PROC_MAGIC, SYSFS_MAGIC].contains(&kind.f_type) {
        return Err(not_regular(shown));
    }
    Ok(())
}

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
        check_file(&found, shown)?;
        let kind = rustix::fs::statfs(path).map_err(|errno| from_io(&errno.into(), shown))?;
        check_kind(&kind, shown)?;
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = options
        .custom_flags(flags.bits() as i32)
        .open(path)
        .map_err(fail)?;
    let found = file.metadata().map_err(fail)?;
    check_file(&found, shown)?;
    let kind = rustix::fs::fstatfs(file.as_fd()).map_err(|errno| from_io(&errno.into(), shown))?;
    check_kind(&kind, shown)?;
    Ok((file, found))
}

pub(crate) fn check_file(found: &Metadata, shown: &str) -> Result<(), ConnectError> {
    if found.is_dir() {
        return Err(is_a_directory(shown));
    }
    if !found.is_file() {
        return Err(not_regular(shown));
    }
    Ok(())
}

/// Checks that `path` is a folder, and none of the kernel's.
pub(crate) fn check_dir(path: &Path, shown: &str) -> Result<(), ConnectError> {
    let found = fs::metadata(path).map_err(|cause| from_io(&cause, shown))?;
    if !found.is_dir() {
        return Err(error(
            ErrorCode::NotADirectory,
            format!("`{shown}` is not a directory"),
        ));
    }
    let kind = rustix::fs::statfs(path).map_err(|errno| from_io(&errno.into(), shown))?;
    check_kind(&kind, shown)
}

/// Makes the folders that `path` is to be in.
pub(crate) fn make_parents(path: &Path, shown: &str) -> Result<(), ConnectError> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    fs::create_dir_all(parent).map_err(|cause| match cause.kind() {
        // What exists is not the path but a file, or a bad link, on the way to it.
        std::io::ErrorKind::AlreadyExists => match fs::metadata(parent) {
            Ok(_) => from_io(&std::io::ErrorKind::NotADirectory.into(), shown),
            Err(cause) => from_io(&cause, shown),
        },
        _ => from_io(&cause, shown),
    })
}

/// Where a file is put when `path` is written: what a link leads to, the link stays.
pub(super) fn target(path: &Path) -> std::io::Result<PathBuf> {
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
