//! Removing folders with all they hold.
//!
//! No link is followed, and neither the stack nor the number of open files
//! grows with the depth, for a folder can be nested a hundred thousand deep.

use std::{
    ffi::{CStr, CString},
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, fstat, openat, unlinkat},
    io::Errno,
};

/// Names read before they are worked off.
const BATCH: usize = 256;

/// A folder that is being emptied, to be found again on the way up.
struct Above {
    dev: u64,
    ino: u64,
    /// The name in it of the folder below.
    name: CString,
}

/// Removes `path`, whatever it is; `go_on` is asked again and again.
pub(crate) fn remove_all(path: &Path, go_on: impl Fn() -> bool) -> io::Result<()> {
    let top = CString::new(path.as_os_str().as_bytes())?;
    match unlinkat(CWD, &top, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        done => return Ok(done?),
    }
    let mut above: Vec<Above> = Vec::new();
    let mut dir = open_dir(CWD, &top)?;
    while go_on() {
        if let Some(name) = remove_files(&dir)? {
            let found = fstat(&dir)?;
            let below = match open_dir(&dir, &name) {
                // Removed or replaced meanwhile: look again.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                below => below?,
            };
            above.push(Above {
                dev: found.st_dev,
                ino: found.st_ino,
                name,
            });
            dir = below;
            continue;
        }
        let Some(up) = above.pop() else {
            return Ok(unlinkat(CWD, &top, AtFlags::REMOVEDIR)?);
        };
        dir = open_dir(&dir, c"..")?;
        let found = fstat(&dir)?;
        if (found.st_dev, found.st_ino) != (up.dev, up.ino) {
            return Err(Errno::BUSY.into());
        }
        match unlinkat(&dir, &up.name, AtFlags::REMOVEDIR) {
            // Filled again meanwhile: it will be found again.
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

fn open_dir(parent: impl std::os::fd::AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    openat(parent, name, flags, Mode::empty())
}

/// Removes what is no folder, until a folder turns up or nothing is left.
fn remove_files(dir: &OwnedFd) -> io::Result<Option<CString>> {
    loop {
        let names = some_names(dir)?;
        if names.is_empty() {
            return Ok(None);
        }
        let mut folder = None;
        for name in names {
            match unlinkat(dir, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => folder = Some(name),
                Err(errno) => return Err(errno.into()),
            }
        }
        if folder.is_some() {
            return Ok(folder);
        }
    }
}

fn some_names(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_owned();
        if name.as_bytes() != b"." && name.as_bytes() != b".." {
            names.push(name);
        }
        if names.len() == BATCH {
            break;
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_wide_tree_goes_and_what_its_links_lead_to_stays() {
        let top = tempfile::tempdir().unwrap();
        let tree = top.path().join("tree");
        let kept = top.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("f"), "").unwrap();
        for n in 0..1000 {
            fs::create_dir_all(tree.join(format!("d{n}/e"))).unwrap();
            fs::write(tree.join(format!("f{n}")), "").unwrap();
            symlink(&kept, tree.join(format!("d{n}/e/link"))).unwrap();
        }
        symlink(&tree, top.path().join("link")).unwrap();
        remove_all(&top.path().join("link"), || true).unwrap();
        assert_eq!(fs::read_dir(&tree).unwrap().count(), 2000);
        remove_all(&tree, || true).unwrap();
        assert!(!tree.exists());
        assert!(kept.join("f").exists());
        let gone = remove_all(&tree, || true).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn depth_costs_neither_stack_nor_open_files() {
        let top = tempfile::tempdir().unwrap();
        let tree = top.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mut dir: OwnedFd = fs::File::open(&tree).unwrap().into();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&dir, c"d", Mode::RWXU).unwrap();
            dir = open_dir(&dir, c"d").unwrap();
        }
        drop(dir);
        std::thread::Builder::new()
            .stack_size(128 * 1024)
            .spawn(move || remove_all(&tree, || true).unwrap())
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(fs::read_dir(top.path()).unwrap().count(), 0);
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let top = tempfile::tempdir().unwrap();
        let tree = top.path().join("tree");
        fs::create_dir_all(tree.join("a/b/c")).unwrap();
        let asked = Cell::new(0);
        let ended = remove_all(&tree, || asked.replace(asked.get() + 1) < 2);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert!(tree.join("a/b/c").exists());
    }
}
