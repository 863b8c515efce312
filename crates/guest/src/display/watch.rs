//! Tells runs that something has come into their folders.
//!
//! One inotify(7) instance for all of them: the kernel takes milliseconds to close one.

use std::{
    collections::HashMap,
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd as _, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use tokio::{net::unix::pipe, sync::Notify};

/// Started with the first run that displays.
#[derive(Default)]
pub(crate) struct Watcher(Mutex<Option<Arc<Shared>>>);

struct Shared {
    /// Of inotify(7); bytes are read from it as from a pipe.
    events: pipe::Receiver,
    watched: Mutex<HashMap<i32, Arc<Notify>>>,
}

/// One folder that is watched, until it is dropped.
pub(super) struct Watch {
    number: i32,
    changed: Arc<Notify>,
    shared: Arc<Shared>,
}

impl Watcher {
    pub(super) fn watch(&self, folder: &OwnedFd) -> io::Result<Watch> {
        let shared = {
            let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match &*shared {
                Some(shared) => Arc::clone(shared),
                None => Arc::clone(shared.insert(Shared::start()?)),
            }
        };
        // By the descriptor: what its path leads to may be something else by now.
        let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        let flags = WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        // Held until it is known by its number, before anybody looks for that.
        let mut watched = shared.watched();
        let number = inotify::add_watch(&shared.events, path, flags)?;
        let changed = Arc::new(Notify::new());
        watched.insert(number, Arc::clone(&changed));
        drop(watched);
        Ok(Watch {
            number,
            changed,
            shared,
        })
    }
}

impl Shared {
    fn start() -> io::Result<Arc<Self>> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let shared = Arc::new(Self {
            events: pipe::Receiver::from_owned_fd_unchecked(events)?,
            watched: Mutex::default(),
        });
        // Lives as long as the guest.
        let reading = Arc::clone(&shared);
        tokio::spawn(async move {
            while reading.events.readable().await.is_ok() {
                reading.read();
            }
        });
        Ok(shared)
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<i32, Arc<Notify>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        // Tells the runtime when there is no more to read.
        let _ = self.events.try_io(|| -> io::Result<()> {
            let mut reader = Reader::new(&self.events, &mut buffer);
            loop {
                let event = reader.next()?;
                let watched = self.watched();
                match event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                    true => watched.values().for_each(|changed| changed.notify_one()),
                    false => {
                        if let Some(changed) = watched.get(&event.wd()) {
                            changed.notify_one();
                        }
                    }
                }
            }
        });
    }
}

impl Watch {
    /// It is to be asked for once more.
    pub fn again(&self) {
        self.changed.notify_one();
    }

    /// Something has come since this was asked for the last time.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.watched().remove(&self.number);
        // It has gone with its folder already, mostly.
        let _ = inotify::remove_watch(&self.shared.events, self.number);
    }
}
