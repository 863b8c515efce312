//! Removing a directory that a sandbox has filled.
//!
//! What is in there was made by somebody who may want to hurt: links are never
//! followed, and neither the stack nor the number of open files grows with the
//! depth, for a directory can be nested a hundred thousand deep. Each folder that
//! is found inside another is first moved up to the top.

use std::{
    ffi::{CStr, CString, OsStr},
    io,
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, chmod, openat, renameat, unlinkat},
    io::Errno,
};

/// Names read before they are worked off.
const BATCH: usize = 1024;
/// Names tried for a folder that is moved up, in case the sandbox used them.
const TRIES: u32 = 10_000;

/// Removes `path`, which nobody else changes any more, and all that is in it.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let top = match open_dir(CWD, &name) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut moved = 0;
    loop {
        let names = some_names(&top)?;
        if names.is_empty() {
            break;
        }
        for name in names {
            if remove_file(&top, &name)? {
                continue;
            }
            let dir = open_dir(&top, &name)?;
            empty_into(&dir, &top, &mut moved)?;
            unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
    drop(top);
    unlinkat(CWD, &name, AtFlags::REMOVEDIR)?;
    Ok(())
}

/// Removes the files of `dir` and moves its folders to `top`.
fn empty_into(dir: &OwnedFd, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    loop {
        let names = some_names(dir)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            if !remove_file(dir, &name)? {
                // To move a folder its owner must be allowed to write in it.
                open_dir(dir, &name)?;
                move_up(dir, &name, top, moved)?;
            }
        }
    }
}

fn move_up(dir: &OwnedFd, name: &CStr, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    let mut last = Errno::EXIST;
    for _ in 0..TRIES {
        *moved += 1;
        match renameat(dir, name, top, format!(".moved-{moved}")) {
            Ok(()) => return Ok(()),
            Err(error @ (Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR)) => last = error,
            Err(error) => return Err(error.into()),
        }
    }
    Err(last.into())
}

/// Whether `name` was no folder, and is gone.
fn remove_file(dir: impl AsFd, name: &CStr) -> io::Result<bool> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a folder, and first its permissions when they are in the way.
fn open_dir(parent: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(parent, name, flags | OFlags::PATH, Mode::empty())?;
    // Through the handle, so that it is this folder and no other whose mode changes.
    chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU)?;
    openat(&handle, c".", flags | OFlags::RDONLY, Mode::empty())
}

fn some_names(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(entry.file_name().to_owned());
        }
        if names.len() == BATCH {
            break;
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;

    #[test]
    fn a_tree_is_removed_and_what_its_links_point_at_is_not() {
        let top = tempfile::tempdir().unwrap();
        let kept = top.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        let tree = top.path().join("tree");
        fs::create_dir_all(tree.join("a/b/c")).unwrap();
        fs::write(tree.join("a/b/c/file"), "x").unwrap();
        fs::create_dir(tree.join(".moved-1")).unwrap();
        fs::write(tree.join(".moved-1/full"), "x").unwrap();
        fs::write(tree.join(".moved-2"), "x").unwrap();
        symlink(&kept, tree.join("a/link")).unwrap();
        symlink(&kept, tree.join("link")).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert!(kept.join("file").exists());
        remove_tree(&tree).unwrap();
    }

    #[test]
    fn a_link_in_the_place_of_the_tree_is_not_followed() {
        let top = tempfile::tempdir().unwrap();
        let kept = top.path().join("kept");
        fs::create_dir(&kept).unwrap();
        let link = top.path().join("link");
        symlink(&kept, &link).unwrap();
        assert!(remove_tree(&link).is_err());
        assert!(kept.exists());
    }

    #[test]
    fn folders_without_any_permission_are_removed() {
        let top = tempfile::tempdir().unwrap();
        let tree = top.path().join("tree");
        fs::create_dir_all(tree.join("closed/inner")).unwrap();
        for closed in ["closed/inner", "closed"] {
            fs::set_permissions(tree.join(closed), fs::Permissions::from_mode(0o000)).unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn depth_costs_neither_stack_nor_open_files() {
        const DEPTH: usize = 5_000;
        let top = tempfile::tempdir().unwrap();
        let tree = top.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mut dir = fs::File::open(&tree).unwrap().into();
        for _ in 0..DEPTH {
            rustix::fs::mkdirat(&dir, c"d", Mode::RWXU).unwrap();
            dir = open_dir(&dir, c"d").unwrap();
        }
        drop(dir);
        std::thread::Builder::new()
            .stack_size(128 * 1024)
            .spawn(move || remove_tree(&tree).unwrap())
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(fs::read_dir(top.path()).unwrap().count(), 0);
    }
}
