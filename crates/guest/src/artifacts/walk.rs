//! Finding the files of the workspace that changed since a moment.
//!
//! One walk over descriptors: no link is followed, and what a background
//! process moves about meanwhile can be missed but leads nowhere.

use std::{
    ffi::{CStr, CString, OsStr},
    fs::File,
    io,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Component, Path, PathBuf},
    rc::Rc,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, fstat, openat, statat},
    io::Errno,
};

use super::changes::Moment;

/// Entries that are looked at.
const MAX_ENTRIES: usize = 250_000;
/// Files that are found; those beyond are counted.
const MAX_FOUND: usize = 10_000;
/// Each level costs an open file at most.
const MAX_DEPTH: usize = 64;
const LOOK_UP_EVERY: usize = 256;

/// Folders of what a program can make again.
const CACHES: [&[u8]; 6] = [
    b"__pycache__",
    b"bower_components",
    b"node_modules",
    b"site-packages",
    b"target",
    b"venv",
];
const CACHED: [&[u8]; 5] = [b".pyc", b".pyo", b".class", b".o", b".swp"];

/// A file that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Relative to the workspace.
    pub path: PathBuf,
    pub dev: u64,
    pub ino: u64,
    pub size: u64,
    pub changed: Moment,
}

#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Oldest change first.
    pub files: Vec<Found>,
    /// Files that changed and are too many.
    pub omitted: u32,
}

struct Folder {
    parent: Rc<OwnedFd>,
    name: CString,
    path: PathBuf,
    depth: usize,
}

/// The regular files that changed, but for what is hidden or a cache.
pub(crate) fn changed_since(workspace: &Path, since: Moment, go_on: impl Fn() -> bool) -> Changes {
    let mut changes = Changes::default();
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(top) = openat(CWD, workspace, flags, Mode::empty()) else {
        return changes;
    };
    let Ok(device) = fstat(&top).map(|found| found.st_dev) else {
        return changes;
    };
    let mut buffer = vec![MaybeUninit::uninit(); 64 * 1024];
    let mut folders = Vec::new();
    let mut seen = 0;
    let mut next = Some((Rc::new(top), PathBuf::new(), 0));
    while let Some((dir, path, depth)) = next {
        let mut entries = RawDir::new(&*dir, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            seen += 1;
            if seen > MAX_ENTRIES || (seen % LOOK_UP_EVERY == 0 && !go_on()) {
                return sorted(changes);
            }
            let name = entry.file_name();
            // `.` and `..` are, too.
            if name.to_bytes().starts_with(b".") {
                continue;
            }
            let mut kind = entry.file_type();
            let mut found = None;
            if matches!(kind, FileType::RegularFile | FileType::Unknown) {
                let Ok(stat) = statat(&*dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
                    continue;
                };
                kind = FileType::from_raw_mode(stat.st_mode);
                found = Some(stat);
            }
            match (kind, found) {
                (FileType::Directory, _) if depth < MAX_DEPTH && !is_one(name, &CACHES) => {
                    folders.push(Folder {
                        parent: Rc::clone(&dir),
                        name: name.to_owned(),
                        path: path.join(OsStr::from_bytes(name.to_bytes())),
                        depth: depth + 1,
                    });
                }
                (FileType::RegularFile, Some(stat))
                    if Moment::changed(&stat) >= since && !is_cached(name) =>
                {
                    if changes.files.len() == MAX_FOUND {
                        changes.omitted = changes.omitted.saturating_add(1);
                        continue;
                    }
                    changes.files.push(Found {
                        path: path.join(OsStr::from_bytes(name.to_bytes())),
                        dev: stat.st_dev,
                        ino: stat.st_ino,
                        size: u64::try_from(stat.st_size).unwrap_or(0),
                        changed: Moment::changed(&stat),
                    });
                }
                _ => {}
            }
        }
        next = std::iter::from_fn(|| folders.pop()).find_map(|folder| enter(&folder, device));
    }
    sorted(changes)
}

/// The folder, unless it went or something else is mounted there.
fn enter(folder: &Folder, device: u64) -> Option<(Rc<OwnedFd>, PathBuf, usize)> {
    let dir = open_below(&folder.parent, &folder.name, OFlags::DIRECTORY).ok()?;
    let found = fstat(&dir).ok()?;
    (found.st_dev == device).then(|| (Rc::new(dir), folder.path.clone(), folder.depth))
}

fn sorted(mut changes: Changes) -> Changes {
    changes
        .files
        .sort_by(|a, b| (a.changed, &a.path).cmp(&(b.changed, &b.path)));
    changes
}

fn is_one(name: &CStr, names: &[&[u8]]) -> bool {
    names.contains(&name.to_bytes())
}

fn is_cached(name: &CStr) -> bool {
    let name = name.to_bytes();
    name.ends_with(b"~") || CACHED.iter().any(|end| name.ends_with(end))
}

fn open_below(dir: &OwnedFd, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    // A FIFO that took the file's place is not waited for.
    let safe = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    openat(dir, name, flags | safe, Mode::empty())
}

/// Opens a regular file of the workspace to read it; follows no link.
pub(crate) fn open(workspace: &Path, path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = openat(CWD, workspace, flags, Mode::empty())?;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else {
            break;
        };
        let name = CString::new(name.as_bytes())?;
        if parts.peek().is_some() {
            dir = open_below(&dir, &name, OFlags::DIRECTORY)?;
            continue;
        }
        let file = open_below(&dir, &name, OFlags::RDONLY)?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
            return Ok(file.into());
        }
        break;
    }
    Err(io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, process::Command, time::Instant};

    use super::*;
    use crate::artifacts::LastChange;

    fn names(changes: &Changes) -> Vec<&str> {
        let mut names: Vec<_> = changes
            .files
            .iter()
            .map(|file| file.path.to_str().unwrap())
            .collect();
        names.sort_unstable();
        names
    }

    async fn begin() -> Moment {
        let change = LastChange::default();
        change.is_now();
        change.begin().await
    }

    #[tokio::test]
    async fn new_and_changed_files_are_found_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        for name in ["old", "a/old", "grown", "moved", "touched"] {
            fs::write(at(name), "x").unwrap();
        }
        let since = begin().await;
        for folder in [
            ".git",
            "__pycache__",
            "node_modules/x",
            "target",
            "a/.hidden",
        ] {
            fs::create_dir_all(at(folder)).unwrap();
            fs::write(at(folder).join("f.txt"), "x").unwrap();
        }
        for name in ["new", "a/b/new", ".hidden", "m.pyc", "x~", "a/b/\n"] {
            fs::write(at(name), "x").unwrap();
        }
        fs::write(at("grown"), "xx").unwrap();
        fs::rename(at("moved"), at("a/moved")).unwrap();
        symlink(at("old"), at("link")).unwrap();
        symlink(dir.path(), at("a/loop")).unwrap();
        let made = Command::new("mkfifo").arg(at("fifo")).status().unwrap();
        assert!(made.success());
        let changes = changed_since(dir.path(), since, || true);
        assert_eq!(
            names(&changes),
            ["a/b/\n", "a/b/new", "a/moved", "grown", "new"]
        );
        assert_eq!(changes.omitted, 0);
        let later = begin().await;
        assert_eq!(names(&changed_since(dir.path(), later, || true)), [""; 0]);
    }

    #[tokio::test]
    async fn it_is_bounded_in_depth_and_number_and_ends_when_told() {
        let dir = tempfile::tempdir().unwrap();
        let since = begin().await;
        let mut deep = dir.path().to_owned();
        for _ in 0..MAX_DEPTH + 5 {
            deep.push("d");
            fs::create_dir(&deep).unwrap();
            fs::write(deep.join("f"), "").unwrap();
        }
        let changes = changed_since(dir.path(), since, || true);
        assert_eq!(changes.files.len(), MAX_DEPTH);
        for n in 0..MAX_FOUND {
            fs::write(dir.path().join(format!("f{n}")), "").unwrap();
        }
        let changes = changed_since(dir.path(), since, || true);
        assert_eq!(changes.files.len(), MAX_FOUND);
        assert_eq!(changes.omitted as usize, MAX_DEPTH);
        let stopped = changed_since(dir.path(), since, || false);
        assert!(stopped.files.len() < LOOK_UP_EVERY);
    }

    #[test]
    fn only_a_regular_file_is_opened_and_no_link_on_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("a")).unwrap();
        fs::write(at("a/f"), "x").unwrap();
        symlink(at("a"), at("link")).unwrap();
        symlink(at("a/f"), at("a/link")).unwrap();
        let made = Command::new("mkfifo").arg(at("fifo")).status().unwrap();
        assert!(made.success());
        assert!(open(dir.path(), Path::new("a/f")).is_ok());
        for path in [
            "link/f", "a/link", "fifo", "a", "", "..", "a/../a/f", "/a/f",
        ] {
            assert!(open(dir.path(), Path::new(path)).is_err(), "{path}");
        }
    }

    /// Run with `--release -- --ignored --nocapture`.
    #[tokio::test]
    #[ignore = "a measurement"]
    async fn a_walk_over_5000_unchanged_files() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..5000 {
            let folder = dir.path().join(format!("d{}", n / 100));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("f{n}")), "").unwrap();
        }
        let since = begin().await;
        let mut times: Vec<_> = (0..50)
            .map(|_| {
                let began = Instant::now();
                assert_eq!(changed_since(dir.path(), since, || true).files.len(), 0);
                began.elapsed()
            })
            .collect();
        times.sort();
        println!("median {:?}, worst {:?}", times[25], times[49]);
        assert!(times[25] < std::time::Duration::from_millis(5));
    }
}
