//! Changes below a folder, by inotify(7).
//!
//! Events wait in the kernel, in a queue that is bounded there, until somebody
//! takes them: a watch has neither a thread nor a buffer of its own.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use connectrpc::ConnectError;
use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    io::{Errno, ioctl_fionread},
};
use sandbox_core::ErrorCode;
use sandbox_wire::filesystem::{EventType, FilesystemEvent};
use tokio::{net::unix::pipe, sync::OwnedSemaphorePermit};

use super::entry::entry_info;
use crate::{
    blocking::blocking,
    error::{error, from_io},
    workspace::{open::check_dir, replace::is_fresh},
};

/// Events that are taken at once.
const MAX_EVENTS: usize = 4096;
/// Folders of one recursive watch.
const MAX_FOLDERS: usize = 8192;
const READ_BYTES: usize = 16 * 1024;

/// What is wanted of a watch.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub recursive: bool,
    pub with_entry: bool,
    /// On a network's file system, whose other users make no events here.
    pub from_afar: bool,
}

/// Ends with its value.
#[derive(Clone)]
pub(super) struct Watch {
    /// The same queue, to wait on; nothing is read through it.
    ready: Arc<pipe::Receiver>,
    watched: Arc<Mutex<Watched>>,
    _permit: Arc<OwnedSemaphorePermit>,
}

impl Watch {
    pub async fn start(
        dir: PathBuf,
        wanted: Wanted,
        shown: String,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, ConnectError> {
        let (watched, signal) = blocking(move |_| {
            check_dir(&dir, &shown)?;
            if !wanted.from_afar && is_afar(&dir) {
                return Err(ConnectError::invalid_argument(format!(
                    "cannot watch path on network filesystem: {shown}"
                )));
            }
            let watched = Watched::start(dir, wanted).map_err(|cause| failed(&cause, &shown))?;
            let signal = watched.events.try_clone().map_err(|_| exhausted())?;
            Ok((watched, signal))
        })
        .await?;
        Ok(Self {
            ready: Arc::new(
                pipe::Receiver::from_owned_fd_unchecked(signal).map_err(|_| exhausted())?,
            ),
            watched: Arc::new(Mutex::new(watched)),
            _permit: Arc::new(permit),
        })
    }

    /// Waits for something to happen; nothing is lost when the wait is given up.
    pub async fn changed(&self) -> Result<(), ConnectError> {
        if self.locked().has_overflowed {
            return Ok(());
        }
        self.ready.readable().await.map_err(|_| exhausted())
    }

    /// What has happened; when there is nothing, the next wait is a real one.
    pub async fn take_or_rest(&self) -> Result<Vec<FilesystemEvent>, ConnectError> {
        let events = self.take().await?;
        if events.is_empty() {
            // Forgets that it was ready, unless something has come since.
            let _ = self.ready.try_io(|| match ioctl_fionread(&*self.ready) {
                Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            });
        }
        Ok(events)
    }

    fn locked(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has happened since the last time.
    pub async fn take(&self) -> Result<Vec<FilesystemEvent>, ConnectError> {
        let watch = self.clone();
        blocking(move |_| {
            let mut watched = watch.locked();
            let events = watched.take();
            let events = events.map_err(|cause| failed(&cause, "the folder"))?;
            // First what is known, then that it is not all.
            if events.is_empty() && watched.has_overflowed {
                return Err(ConnectError::internal(
                    "watcher error: queue overflow: there were more events than could wait, \
                     and some are lost; look at the folder and watch it anew",
                ));
            }
            Ok(events)
        })
        .await
    }
}

/// Whether it is on NFS, CIFS, SMB or FUSE: statfs(2).
fn is_afar(dir: &Path) -> bool {
    const KINDS: [u32; 5] = [0x6969, 0xff53_4d42, 0x517b, 0xfe53_4d42, 0x6573_5546];
    rustix::fs::statfs(dir).is_ok_and(|found| KINDS.contains(&(found.f_type as u32)))
}

fn exhausted() -> ConnectError {
    error(
        ErrorCode::SandboxExhausted,
        "no more folders can be watched",
    )
}

fn failed(cause: &io::Error, shown: &str) -> ConnectError {
    let limits = [Errno::NOSPC, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    match cause.raw_os_error() {
        Some(code) if limits.iter().any(|limit| limit.raw_os_error() == code) => exhausted(),
        _ => from_io(cause, shown),
    }
}

struct Watched {
    events: OwnedFd,
    root: PathBuf,
    wanted: Wanted,
    /// By watch descriptor, relative to the root.
    folders: HashMap<i32, PathBuf>,
    /// The kernel has dropped events: what comes after tells half the story.
    has_overflowed: bool,
    /// Of files of the guest's own that were renamed, and are to be seen in their places.
    written: HashSet<u32>,
}

impl Watched {
    fn start(root: PathBuf, wanted: Wanted) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let mut watched = Self {
            events,
            root,
            wanted,
            folders: HashMap::new(),
            has_overflowed: false,
            written: HashSet::new(),
        };
        watched.watch(PathBuf::new(), WatchFlags::empty())?;
        if wanted.recursive {
            watched.watch_below(Path::new(""))?;
        }
        Ok(watched)
    }

    fn watch(&mut self, folder: PathBuf, flags: WatchFlags) -> io::Result<()> {
        if self.folders.len() >= MAX_FOLDERS {
            return Err(Errno::NOSPC.into());
        }
        let changes = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::MOVE
            | WatchFlags::ONLYDIR
            | WatchFlags::EXCL_UNLINK;
        let path = self.root.join(&folder);
        let descriptor = inotify::add_watch(&self.events, path, changes | flags)?;
        self.folders.insert(descriptor, folder);
        Ok(())
    }

    /// Watches the folders in `folder` and below; gives all that is there.
    fn watch_below(&mut self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut left = vec![folder.to_owned()];
        while let Some(folder) = left.pop() {
            // It may have gone.
            let Ok(entries) = fs::read_dir(self.root.join(&folder)) else {
                continue;
            };
            for entry in entries.flatten() {
                let below = folder.join(entry.file_name());
                if found.len() < MAX_EVENTS {
                    found.push(below.clone());
                }
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                match self.watch(below.clone(), WatchFlags::DONT_FOLLOW) {
                    Ok(()) => left.push(below),
                    Err(cause) if cause.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) => {
                        return Err(cause);
                    }
                    // Gone, closed, or too long a path.
                    Err(_) => {}
                }
            }
        }
        Ok(found)
    }

    fn forget(&mut self, folder: &Path) {
        let events = &self.events;
        self.folders.retain(|descriptor, watched| {
            let is_below = watched.starts_with(folder);
            if is_below {
                let _ = inotify::remove_watch(events, *descriptor);
            }
            !is_below
        });
    }

    fn take(&mut self) -> io::Result<Vec<FilesystemEvent>> {
        let mut events = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); READ_BYTES];
        // Of the first events only, so that a flood does not keep us here.
        while events.len() < MAX_EVENTS && !self.has_overflowed {
            let changes = match self.read(&mut buffer)? {
                changes if changes.is_empty() => break,
                changes => changes,
            };
            for (flags, path) in changes {
                self.apply(flags, path, &mut events)?;
            }
        }
        Ok(events)
    }

    /// One buffer of changes; none when nothing has happened.
    fn read(&mut self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<Vec<(ReadFlags, PathBuf)>> {
        let mut changes = Vec::new();
        let mut reader = Reader::new(&self.events, buffer);
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    self.has_overflowed = true;
                    return Ok(changes);
                }
                Ok(event) => {
                    // Without a name it is about a folder of ours, which the one above tells too.
                    let folder = self.folders.get(&event.wd());
                    if let (Some(folder), Some(name)) = (folder, event.file_name()) {
                        let (flags, name) = (event.events(), name.to_bytes());
                        if is_fresh(name) {
                            if flags.contains(ReadFlags::MOVED_FROM)
                                && self.written.len() < MAX_EVENTS
                            {
                                self.written.insert(event.cookie());
                            }
                            continue;
                        }
                        let path = folder.join(std::ffi::OsStr::from_bytes(name));
                        // As if it had been written there.
                        let is_written = flags.contains(ReadFlags::MOVED_TO)
                            && self.written.remove(&event.cookie());
                        changes.push((flags, path.clone()));
                        if is_written {
                            changes.push((ReadFlags::MODIFY, path));
                        }
                    }
                }
                Err(Errno::AGAIN) => return Ok(changes),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if reader.is_buffer_empty() && !changes.is_empty() {
                return Ok(changes);
            }
        }
    }

    fn apply(
        &mut self,
        flags: ReadFlags,
        path: PathBuf,
        events: &mut Vec<FilesystemEvent>,
    ) -> io::Result<()> {
        let Some(kind) = event_type(flags) else {
            return Ok(());
        };
        events.push(self.event(kind, &path));
        if !self.wanted.recursive || !flags.contains(ReadFlags::ISDIR) {
            return Ok(());
        }
        match kind {
            // What was put into it before it was watched is told here.
            EventType::EVENT_TYPE_CREATE
                if self.watch(path.clone(), WatchFlags::DONT_FOLLOW).is_ok() =>
            {
                for below in self.watch_below(&path)? {
                    events.push(self.event(kind, &below));
                }
            }
            EventType::EVENT_TYPE_RENAME | EventType::EVENT_TYPE_REMOVE => self.forget(&path),
            _ => {}
        }
        Ok(())
    }

    fn event(&self, kind: EventType, path: &Path) -> FilesystemEvent {
        let is_there = !matches!(
            kind,
            EventType::EVENT_TYPE_REMOVE | EventType::EVENT_TYPE_RENAME
        );
        // What has gone is not described by what has taken its place.
        let entry = match self.wanted.with_entry && is_there {
            true => entry_info(&self.root.join(path)).ok(),
            false => None,
        };
        FilesystemEvent {
            name: path.to_string_lossy().into_owned(),
            r#type: kind.into(),
            entry: entry.into(),
            ..Default::default()
        }
    }
}

fn event_type(flags: ReadFlags) -> Option<EventType> {
    [
        (ReadFlags::CREATE, EventType::EVENT_TYPE_CREATE),
        (ReadFlags::MOVED_TO, EventType::EVENT_TYPE_CREATE),
        (ReadFlags::MOVED_FROM, EventType::EVENT_TYPE_RENAME),
        (ReadFlags::DELETE, EventType::EVENT_TYPE_REMOVE),
        (ReadFlags::MODIFY, EventType::EVENT_TYPE_WRITE),
        (ReadFlags::ATTRIB, EventType::EVENT_TYPE_CHMOD),
    ]
    .into_iter()
    .find_map(|(flag, kind)| flags.contains(flag).then_some(kind))
}
