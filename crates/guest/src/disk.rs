//! The limit of the workspace, where the storage below has none of its own.
//!
//! ```text
//! resting ── a program starts, a file is written ──> watching ── all is still ──> resting
//!                                         less than the limit ^ │ more
//!                                                             │ v
//!                                                            full
//! ```
//!
//! While it is full, no program in the sandbox can write to a file (a resource limit
//! that none of them can lift), and no call adds to one; both can delete. That limit
//! knows nothing of mapped files and of names: where the workspace grows on, its
//! programs are killed. It is a watch and not a wall: between two looks a program can
//! write more, and what has no name any more can be hidden in a mapping.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use connectrpc::ConnectError;
use rustix::{
    process::{Pid, Resource, Rlimit, Signal, getpid, kill_process, prlimit},
    time::{ClockId, clock_gettime},
};
use sandbox_core::{ByteSize, ErrorCode};
use tokio::sync::Notify;

use crate::{
    error::error,
    mounts,
    supervise::tree::{self, Tree},
    warm::Idle,
    workspace::usage,
};

/// Between two looks while there is something to see, and a multiple of what a look
/// takes of the processor: a large workspace is looked at less often.
const INTERVAL: Duration = Duration::from_millis(200);
const INTERVAL_LOOKS: u32 = 10;
/// The same while it is full, for then what grows on is to be stopped.
const FULL_LOOKS: u32 = 3;
/// A look takes no longer; a larger workspace is known in part, or one whose programs
/// leave no processor for it.
const LOOK: Duration = Duration::from_secs(10);
/// What may have been written before anybody looked, as a part of the limit.
const EXCESS: u64 = 4;
/// A file takes as much at least, were it empty: there is an end of inodes too.
const FILE_BYTES: u64 = 4096;

pub(crate) struct Disk {
    workspace: PathBuf,
    /// Other folders on a disk that programs can write: volumes that the image wants.
    others: Vec<PathBuf>,
    /// `None`: the storage has a limit of its own, or there is none.
    limit: Option<u64>,
    full: AtomicBool,
    /// How much there was at the last look.
    used: AtomicU64,
    /// What is no program yet; held while programs are limited.
    idle: Mutex<Idle>,
    stirred: Notify,
}

impl Disk {
    pub fn new(workspace: PathBuf, limit: Option<u64>) -> Self {
        Self {
            others: match limit {
                Some(_) => mounts::writable(&workspace),
                None => Vec::new(),
            },
            workspace,
            limit,
            full: AtomicBool::new(false),
            used: AtomicU64::new(0),
            idle: Mutex::default(),
            stirred: Notify::new(),
        }
    }

    /// A program starts, or a file was written: somebody should look.
    pub fn stir(&self) {
        if self.limit.is_some() {
            self.stirred.notify_one();
        }
    }

    /// Processes that are not to be limited until they become programs.
    pub fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Before a call adds to a file.
    pub fn check(&self) -> Result<(), ConnectError> {
        match self.limit {
            Some(limit) if self.is_full() => Err(error(
                ErrorCode::NoSpace,
                format!(
                    "the workspace has used up its {}; delete something",
                    ByteSize(limit)
                ),
            )),
            _ => Ok(()),
        }
    }

    /// How much a call may add to a file there, as far as the last look tells.
    pub fn check_room(&self, file: &Path, added: u64) -> Result<(), ConnectError> {
        let limit = self.limit.filter(|_| file.starts_with(&self.workspace));
        match limit {
            Some(limit) if added > limit.saturating_sub(self.used.load(Ordering::Relaxed)) => {
                Err(error(
                    ErrorCode::NoSpace,
                    format!(
                        "it would be more than the {} of the workspace",
                        ByteSize(limit)
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Lives as long as the guest.
    pub async fn watch(self: Arc<Self>) {
        let Some(limit) = self.limit else { return };
        let mut seen = None;
        loop {
            let disk = Arc::clone(&self);
            let look = move || {
                let seen = seen.unwrap_or_else(|| Seen::first(&disk));
                disk.look(limit, seen)
            };
            let Ok(look) = tokio::task::spawn_blocking(look).await else {
                return;
            };
            seen = Some(look.seen);
            let looks = match look.seen.full_at {
                Some(_) => FULL_LOOKS,
                None => INTERVAL_LOOKS,
            };
            match look.busy {
                true => tokio::time::sleep(INTERVAL.max(look.took * looks)).await,
                // What stirred takes a moment to have done something.
                false => {
                    self.stirred.notified().await;
                    tokio::time::sleep(INTERVAL / 4).await;
                }
            }
        }
    }

    fn look(&self, limit: u64, mut seen: Seen) -> Look {
        let began = processor_time();
        let me = getpid().as_raw_nonzero().get();
        let mut used = self.used(LOOK).without(seen.given);
        let expected = seen.expected(&self.workspace);
        // The storage lost more than is seen here: others may have taken it, or it hides.
        if expected > limit && (used.bytes <= limit || !used.complete) {
            self.open_folders();
            used = self.used(LOOK).without(seen.given);
            used.bytes = used.bytes.saturating_add(deleted_bytes(me));
        }
        if !used.complete {
            // Else programs that keep the processor busy, or close folders again, would
            // have no limit.
            used.bytes = used.bytes.max(expected);
        }
        if used.too_deep {
            // No look will ever tell what lies there.
            used.bytes = used.bytes.max(limit.saturating_add(1));
        }
        let full = used.bytes > limit;
        // Not where it is guessed: others may fill the storage.
        let grows_on = used.complete
            && seen.full_at.is_some_and(|before| used.bytes > before)
            && used.bytes > limit.saturating_add(limit / EXCESS);
        seen.full_at = full.then_some(used.bytes);
        self.full.store(full, Ordering::Relaxed);
        self.used.store(used.bytes, Ordering::Relaxed);
        // What it runs later on could not write, however much room there is then.
        let idle = self.idle();
        let programs = idle.programs(me, &Tree::now());
        if full {
            for pid in programs.iter().copied().filter_map(Pid::from_raw) {
                let nothing = Rlimit {
                    current: Some(0),
                    maximum: Some(0),
                };
                // It may have ended since.
                let _ = prlimit(Some(pid), Resource::Fsize, nothing);
                if grows_on {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
        }
        Look {
            seen,
            busy: full || !programs.is_empty(),
            took: processor_time().saturating_sub(began),
        }
    }

    fn used(&self, within: Duration) -> Used {
        let others = self.others.iter().map(|other| Used::of(other, within));
        others.fold(Used::of(&self.workspace, within), |all, other| Used {
            bytes: all.bytes.saturating_add(other.bytes),
            complete: all.complete && other.complete,
            too_deep: all.too_deep || other.too_deep,
        })
    }

    fn open_folders(&self) {
        open_folders(&self.workspace);
        self.others.iter().for_each(|other| open_folders(other));
    }
}

/// What one look has found, for the next.
struct Look {
    seen: Seen,
    /// There is more to see soon.
    busy: bool,
    /// Of the processor, for a busy sandbox makes any look a long one.
    took: Duration,
}

/// What earlier looks have found.
#[derive(Clone, Copy)]
struct Seen {
    used_at_start: u64,
    free_at_start: u64,
    /// How much there was at the last look, if that was too much.
    full_at: Option<u64>,
    /// What the image has put into volumes of its own.
    given: u64,
}

impl Seen {
    fn first(disk: &Disk) -> Self {
        let free_at_start = free_bytes(&disk.workspace);
        let given = disk.others.iter().map(|it| Used::of(it, LOOK).bytes);
        let given = given.sum();
        let mut used = disk.used(LOOK);
        if !used.complete {
            // What an earlier life of the sandbox has closed.
            open_folders(&disk.workspace);
            used = disk.used(LOOK);
        }
        Self {
            used_at_start: used.without(given).bytes,
            free_at_start,
            full_at: None,
            given,
        }
    }

    /// What the storage says that it must be, if nobody else uses it.
    fn expected(&self, workspace: &Path) -> u64 {
        let gone = self.free_at_start.saturating_sub(free_bytes(workspace));
        self.used_at_start.saturating_add(gone)
    }
}

struct Used {
    bytes: u64,
    complete: bool,
    /// Some of it lies deeper than a path can say.
    too_deep: bool,
}

impl Used {
    fn without(mut self, given: u64) -> Self {
        self.bytes = self.bytes.saturating_sub(given);
        self
    }

    fn of(workspace: &Path, within: Duration) -> Self {
        let measured = usage::measure(workspace, within, || false);
        let names = measured.used.entries.saturating_mul(FILE_BYTES);
        Self {
            bytes: measured.used.disk_bytes.max(names),
            complete: measured.used.complete,
            too_deep: measured.too_deep,
        }
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn free_bytes(workspace: &Path) -> u64 {
    rustix::fs::statvfs(workspace).map_or(u64::MAX, |disk| disk.f_bfree * disk.f_frsize)
}

/// Gives the owner back what keeps folders from being looked at.
fn open_folders(folder: &Path) {
    let mut left = vec![folder.to_owned()];
    let until = Instant::now() + LOOK;
    while let Some(folder) = left.pop() {
        let Ok(about) = fs::symlink_metadata(&folder) else {
            continue;
        };
        if about.mode() & 0o500 != 0o500 {
            let mode = fs::Permissions::from_mode(about.mode() & 0o7777 | 0o700);
            let _ = fs::set_permissions(&folder, mode);
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(folders.map(|entry| entry.path()));
        if Instant::now() > until {
            return;
        }
    }
}

/// Of files that have no name any more and are open in some program.
fn deleted_bytes(me: i32) -> u64 {
    let programs = tree::descendants(me);
    let descriptors = programs.iter().flat_map(|pid| {
        let folder = fs::read_dir(format!("/proc/{pid}/fd"));
        folder.into_iter().flatten().flatten()
    });
    let mut seen = std::collections::BTreeSet::new();
    let mut bytes = 0;
    for descriptor in descriptors {
        // The file itself, not the link to it.
        let Ok(about) = fs::metadata(descriptor.path()) else {
            continue;
        };
        if about.is_file() && about.nlink() == 0 && seen.insert((about.dev(), about.ino())) {
            bytes += about.blocks() * 512;
        }
    }
    bytes
}
