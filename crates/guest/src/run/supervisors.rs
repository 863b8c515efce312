//! Supervisors: one for each program, and one that was started ahead.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream as StdUnixStream,
    },
    process::{Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::{io::AsyncWriteExt as _, net::UnixStream, sync::Notify, time::timeout};

use crate::{
    disk::Disk,
    reaper::Reaper,
    supervise::{MAX_FDS, control::Begin},
};

/// After a start, so that the program has the processors first; less when it is quick.
const PAUSE: Duration = Duration::from_millis(20);

/// After an end, for its answer goes first: a start holds up the guest's only thread.
const ANSWER: Duration = Duration::from_millis(3);

/// A clone starts for the same sandbox.
#[derive(Clone)]
pub(super) struct Supervisors {
    reaper: Reaper,
    disk: Arc<Disk>,
    spare: Arc<Mutex<Spare>>,
    wanted_now: Arc<Notify>,
}

#[derive(Default)]
struct Spare {
    /// Waits for a program; somebody may have killed it.
    ready: Option<UnixStream>,
    coming: bool,
}

impl Supervisors {
    pub fn new(reaper: Reaper, disk: Arc<Disk>) -> Self {
        let supervisors = Self {
            reaper,
            disk,
            spare: Arc::default(),
            wanted_now: Arc::default(),
        };
        supervisors.refill_soon();
        supervisors
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the program over; what comes back is the control of its supervisor.
    pub async fn begin(&self, begin: &Begin, streams: &[BorrowedFd<'_>]) -> io::Result<UnixStream> {
        let text = serde_json::to_vec(begin)?;
        let spare = self.spare().ready.take();
        self.disk.idle().supervisor = None;
        self.refill_soon();
        if let Some(mut control) = spare
            && tell(&mut control, &text, streams).await.is_ok()
        {
            return Ok(control);
        }
        let (mut control, _) = self.start()?;
        tell(&mut control, &text, streams).await?;
        Ok(control)
    }

    /// In the background: a spare is a gain, and its lack no error.
    fn refill_soon(&self) {
        if std::mem::replace(&mut self.spare().coming, true) {
            return;
        }
        let supervisors = self.clone();
        tokio::spawn(async move {
            // Either way it is time.
            let _ = timeout(PAUSE, supervisors.wanted_now.notified()).await;
            tokio::time::sleep(ANSWER).await;
            let started = {
                let mut idle = supervisors.disk.idle();
                let started = supervisors.start().ok();
                idle.supervisor = started.as_ref().map(|(_, pid)| *pid);
                started
            };
            let mut spare = supervisors.spare();
            spare.coming = false;
            spare.ready = started.map(|(control, _)| control);
        });
    }

    /// A program has ended: nobody is in the way.
    pub fn refill(&self) {
        self.wanted_now.notify_waiters();
    }

    fn start(&self) -> io::Result<(UnixStream, i32)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg("supervise")
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Nobody waits: its end shows on the control stream.
        let (pid, _) = self.reaper.spawn(&mut command)?;
        ours.set_nonblocking(true)?;
        Ok((UnixStream::from_std(ours)?, pid))
    }
}

/// How long the text is, the streams, and the text.
pub(crate) async fn tell(
    control: &mut UnixStream,
    text: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("no room for the streams"));
    }
    // Nothing was sent before: there is room for this much.
    let length = length.to_le_bytes();
    sendmsg(
        &*control,
        &[IoSlice::new(&length)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    control.write_all(text).await
}
