//! The guest's own folder in the workspace, `.sandbox`.
//!
//! Programs may do with it as they like, so it is walked part by part without
//! following a link, and a file in it is always a new one: what was planted
//! there leads nowhere, and nothing that is there is opened or waited for.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::OwnedFd,
    path::Path,
};

use rustix::{
    fs::{CWD, Mode, OFlags, mkdirat, openat},
    io::Errno,
};

pub(crate) use guest_parts::OWN_FOLDER as NAME;

const DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens `.sandbox/<below>`; an error where a part of it is not a folder.
pub(crate) fn open(workspace: &Path, below: &[&str]) -> io::Result<OwnedFd> {
    // Where the workspace is was decided outside: it may be a link.
    let flags = DIR.difference(OFlags::NOFOLLOW);
    let mut dir = openat(CWD, workspace, flags, Mode::empty())?;
    for name in [NAME].iter().chain(below) {
        dir = openat(&dir, *name, DIR, Mode::empty())?;
    }
    Ok(dir)
}

/// Opens `.sandbox/<below>` and makes what is missing of it.
pub(crate) fn make(workspace: &Path, below: &[&str]) -> io::Result<OwnedFd> {
    let flags = DIR.difference(OFlags::NOFOLLOW);
    let mut dir = openat(CWD, workspace, flags, Mode::empty())?;
    for name in [NAME].iter().chain(below) {
        dir = make_in(&dir, name)?;
    }
    Ok(dir)
}

/// Opens a folder and makes it if it is missing.
pub(crate) fn make_in(dir: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let made = match mkdirat(dir, name, Mode::RWXU) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno.into()),
    };
    let dir = openat(dir, name, DIR, Mode::empty())?;
    if made && name == NAME {
        // The workspace may be a repository: none of this is part of it.
        let _ = create(&dir, ".gitignore").and_then(|mut file| file.write_all(b"*\n"));
    }
    Ok(dir)
}

/// Makes a file that is not there yet.
pub(crate) fn create(dir: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_planted_link_or_fifo_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let own = dir.path().join(NAME);
        symlink(outside.path(), &own).unwrap();
        assert!(make(dir.path(), &["output"]).is_err());
        fs::remove_file(&own).unwrap();
        fs::create_dir(&own).unwrap();
        symlink(outside.path(), own.join("output")).unwrap();
        assert!(make(dir.path(), &["output", "x"]).is_err());
        fs::remove_file(own.join("output")).unwrap();
        let status = std::process::Command::new("mkfifo")
            .arg(own.join("output"))
            .status();
        assert!(status.unwrap().success());
        assert!(make(dir.path(), &["output"]).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_is_always_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let opened = make(dir.path(), &["output", "x"]).unwrap();
        create(&opened, "stdout").unwrap();
        assert!(create(&opened, "stdout").is_err());
        symlink(
            "/tmp/somewhere",
            dir.path().join(".sandbox/output/x/stderr"),
        )
        .unwrap();
        assert!(create(&opened, "stderr").is_err());
        assert!(open(dir.path(), &["output", "x"]).is_ok());
        assert!(open(dir.path(), &["other"]).is_err());
        let ignore = fs::read_to_string(dir.path().join(".sandbox/.gitignore"));
        assert_eq!(ignore.unwrap(), "*\n");
    }
}
