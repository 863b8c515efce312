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
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, fstat, openat, statat},
    io::Errno,
};

use super::changes::Moment;

/// Entries that are looked at.
const MAX_ENTRIES: usize = 250_000;
/// Files that are found; those beyond are counted.
const MAX_FOUND: usize = 2000;
/// Folders that may wait; those beyond are passed over.
const MAX_WAITING: usize = 20_000;
/// Longer ones cannot be opened by their path.
const MAX_PATH_BYTES: usize = 4095;
/// Each level costs an open file at most.
const MAX_DEPTH: usize = 64;
/// Entries that are looked at together.
const BATCH: usize = 256;
/// Batches and folders that may wait before whoever finds more looks at it alone.
const WAITING: usize = 64;
const BUFFER: usize = 64 * 1024;

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

/// Something to look at.
enum Job {
    Folder {
        parent: Arc<OwnedFd>,
        above: Arc<Path>,
        name: CString,
        depth: usize,
    },
    Names(Names),
}

/// Names of one folder, each with the NUL at its end.
struct Names {
    dir: Arc<OwnedFd>,
    path: Arc<Path>,
    names: Vec<u8>,
    depth: usize,
}

struct Walk<G> {
    since: Moment,
    device: u64,
    go_on: G,
    shared: Mutex<Shared>,
    /// There is more to do, or nothing will be.
    changed: Condvar,
    seen: AtomicUsize,
}

#[derive(Default)]
struct Shared {
    jobs: Vec<Job>,
    working: usize,
    stopped: bool,
    changes: Changes,
}

/// The regular files that changed, but for what is hidden or a cache.
pub(crate) fn changed_since(
    workspace: &Path,
    since: Moment,
    go_on: impl Fn() -> bool + Sync,
) -> Changes {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(top) = openat(CWD, workspace, flags, Mode::empty()) else {
        return Changes::default();
    };
    let Ok(device) = fstat(&top).map(|found| found.st_dev) else {
        return Changes::default();
    };
    let walk = Walk {
        since,
        device,
        go_on,
        shared: Mutex::default(),
        changed: Condvar::new(),
        seen: AtomicUsize::new(0),
    };
    thread::scope(|scope| {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        walk.read(&Arc::new(top), Path::new(""), 0, &mut buffer);
        if walk.lock().jobs.len() > 1 {
            // Half the time, where there is a processor and a thread to be had.
            let helper = thread::Builder::new().stack_size(128 * 1024);
            let _ = helper.spawn_scoped(scope, || {
                walk.work(&mut vec![MaybeUninit::uninit(); BUFFER]);
            });
        }
        walk.work(&mut buffer);
    });
    let shared = walk.shared.into_inner();
    sorted(shared.unwrap_or_else(PoisonError::into_inner).changes)
}

impl<G: Fn() -> bool> Walk<G> {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until nothing is left to do and nobody will find more.
    fn work(&self, buffer: &mut [MaybeUninit<u8>]) {
        let mut shared = self.lock();
        loop {
            if shared.stopped {
                break;
            }
            let Some(job) = shared.jobs.pop() else {
                if shared.working == 0 {
                    break;
                }
                shared = self
                    .changed
                    .wait(shared)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            shared.working += 1;
            drop(shared);
            match job {
                Job::Names(names) => self.look_at(&names),
                Job::Folder {
                    parent,
                    above,
                    name,
                    depth,
                } => {
                    let path = above.join(OsStr::from_bytes(name.to_bytes()));
                    if let Some(dir) = self.enter(&parent, &name) {
                        drop(parent);
                        self.read(&Arc::new(dir), &path, depth, buffer);
                    }
                }
            }
            shared = self.lock();
            shared.working -= 1;
        }
        self.changed.notify_all();
    }

    /// The folder, unless it went or something else is mounted there.
    fn enter(&self, parent: &OwnedFd, name: &CStr) -> Option<OwnedFd> {
        let dir = open_below(parent, name, OFlags::DIRECTORY).ok()?;
        (fstat(&dir).ok()?.st_dev == self.device).then_some(dir)
    }

    fn read(&self, dir: &Arc<OwnedFd>, path: &Path, depth: usize, buffer: &mut [MaybeUninit<u8>]) {
        let mut names = Names {
            dir: Arc::clone(dir),
            path: path.into(),
            names: Vec::new(),
            depth,
        };
        let mut count = 0;
        let mut entries = RawDir::new(&**dir, buffer);
        while let Some(Ok(entry)) = entries.next() {
            let name = entry.file_name();
            match entry.file_type() {
                // `.` and `..` are hidden, too.
                _ if name.to_bytes().starts_with(b".") => {}
                FileType::Directory => self.descend(&names, name),
                FileType::RegularFile | FileType::Unknown if !is_cached(name) => {
                    names.names.extend_from_slice(name.to_bytes_with_nul());
                }
                _ => {}
            }
            count += 1;
            if count == BATCH {
                count = 0;
                let full = std::mem::take(&mut names.names);
                if !self.count(BATCH) {
                    return;
                }
                self.hand_on(Names {
                    dir: Arc::clone(&names.dir),
                    path: Arc::clone(&names.path),
                    names: full,
                    depth,
                });
            }
        }
        if self.count(count) {
            self.look_at(&names);
        }
    }

    /// Whether more may be looked at.
    fn count(&self, entries: usize) -> bool {
        let seen = self.seen.fetch_add(entries, Ordering::Relaxed) + entries;
        let go_on = seen <= MAX_ENTRIES && (self.go_on)();
        if !go_on {
            self.lock().stopped = true;
        }
        go_on
    }

    fn descend(&self, above: &Names, name: &CStr) {
        let path_bytes = above.path.as_os_str().len() + 1 + name.count_bytes();
        let is_too_deep = above.depth >= MAX_DEPTH || path_bytes > MAX_PATH_BYTES;
        if is_too_deep || CACHES.contains(&name.to_bytes()) {
            return;
        }
        let mut shared = self.lock();
        if shared.jobs.len() < MAX_WAITING {
            shared.jobs.push(Job::Folder {
                parent: Arc::clone(&above.dir),
                above: Arc::clone(&above.path),
                name: name.to_owned(),
                depth: above.depth + 1,
            });
            self.changed.notify_one();
        }
    }

    /// Lets somebody else look at them, unless all have enough to do.
    fn hand_on(&self, names: Names) {
        let mut shared = self.lock();
        if shared.jobs.len() >= WAITING {
            drop(shared);
            self.look_at(&names);
        } else {
            shared.jobs.push(Job::Names(names));
            self.changed.notify_one();
        }
    }

    fn look_at(&self, names: &Names) {
        let all = names.names.split_inclusive(|byte| *byte == 0);
        for name in all.filter_map(|name| CStr::from_bytes_with_nul(name).ok()) {
            let Ok(stat) = statat(&*names.dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            match FileType::from_raw_mode(stat.st_mode) {
                // Not every file system tells with the name.
                FileType::Directory => self.descend(names, name),
                FileType::RegularFile if Moment::changed(&stat) >= self.since => {
                    self.found(names, name, &stat);
                }
                _ => {}
            }
        }
    }

    fn found(&self, names: &Names, name: &CStr, stat: &Stat) {
        let mut shared = self.lock();
        let changes = &mut shared.changes;
        if changes.files.len() == MAX_FOUND {
            changes.omitted = changes.omitted.saturating_add(1);
            return;
        }
        changes.files.push(Found {
            path: names.path.join(OsStr::from_bytes(name.to_bytes())),
            dev: stat.st_dev,
            ino: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            changed: Moment::changed(stat),
        });
    }
}

fn sorted(mut changes: Changes) -> Changes {
    changes
        .files
        .sort_by(|a, b| (a.changed, &a.path).cmp(&(b.changed, &b.path)));
    changes
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
    use std::{
        fs,
        os::unix::fs::symlink,
        process::Command,
        time::{Duration, Instant},
    };

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
        assert!(stopped.files.len() < BATCH);
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
        // Of this thread: the machine may be busy with something else.
        let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let mut times: Vec<(Duration, Duration)> = (0..50)
            .map(|_| {
                let (wall, used) = (Instant::now(), cpu());
                assert_eq!(changed_since(dir.path(), since, || true).files.len(), 0);
                let used = Duration::try_from(cpu() - used).unwrap();
                (wall.elapsed(), used)
            })
            .collect();
        times.sort();
        let [fastest, median, slowest] = [0, 25, 49].map(|n| times[n]);
        println!("wall and cpu of one thread: median {median:?}, {fastest:?} to {slowest:?}");
        assert!(median.0 < Duration::from_millis(5));
    }
}
