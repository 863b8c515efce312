//! The processes of a sandbox as the host sees them.
//!
//! ```text
//! service ── bubblewrap (waits) ── guest: PID 1 of the sandbox ── everything else
//! ```
//!
//! The guest's death takes everything in its PID namespace with it, and it counts
//! as dead only when all of that is gone (pid_namespaces(7)).

use std::{fs, io, os::fd::OwnedFd, sync::Arc, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use tokio::process::Child;

/// How long the kernel may take to end what was killed.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Killed when dropped.
pub(crate) struct Process {
    bwrap: Child,
    parent: Arc<Parent>,
    guest: Option<Arc<OwnedFd>>,
}

/// bubblewrap, as the way to the one process that it has forked.
pub(crate) struct Parent {
    pid: Pid,
    /// Tells whether the number is still its own.
    fd: OwnedFd,
}

impl Parent {
    /// The process that bubblewrap forks at some time; `None` before and after.
    pub fn child(&self) -> io::Result<Option<(Pid, OwnedFd)>> {
        let Some(pid) = self.child_now()? else {
            return Ok(None);
        };
        let child = pidfd_open(pid, PidfdFlags::empty())?;
        // Still bubblewrap's child, so the number had not gone to another process.
        let same = self.child_now()? == Some(pid);
        Ok(same.then_some((pid, child)))
    }

    fn child_now(&self) -> io::Result<Option<Pid>> {
        let pid = self.pid.as_raw_nonzero();
        let children = match fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
            Ok(children) => children,
            Err(_) if self.has_ended()? => return Ok(None),
            Err(error) => return Err(error),
        };
        // Asked after the look, which else may have been at another process.
        if self.has_ended()? {
            return Ok(None);
        }
        let child = children.split_whitespace().next();
        Ok(child
            .and_then(|child| child.parse().ok())
            .and_then(Pid::from_raw))
    }

    fn has_ended(&self) -> io::Result<bool> {
        // A pidfd is readable once its process has ended (pidfd_open(2)).
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        Ok(poll(&mut fds, Some(&Timespec::default()))? != 0)
    }
}

impl Process {
    /// Takes over a bubblewrap that was just started.
    pub fn new(bwrap: Child) -> io::Result<Self> {
        let pid = bwrap.id().ok_or(io::ErrorKind::NotFound)?;
        let pid = i32::try_from(pid).map_err(io::Error::other)?;
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?;
        let parent = Parent {
            pid,
            // Not waited for yet, so the number is its own.
            fd: pidfd_open(pid, PidfdFlags::empty())?,
        };
        Ok(Self {
            bwrap,
            parent: Arc::new(parent),
            guest: None,
        })
    }

    pub fn parent(&self) -> Arc<Parent> {
        Arc::clone(&self.parent)
    }

    fn find_guest(&mut self) -> io::Result<()> {
        if self.guest.is_none() {
            self.guest = self.parent.child()?.map(|(_, guest)| Arc::new(guest));
        }
        Ok(())
    }

    /// Waits until bubblewrap has ended, as it does after the guest.
    pub async fn bwrap_ended(&mut self) -> io::Result<()> {
        self.bwrap.wait().await.map(drop)
    }

    /// Kills what runs, and waits until no process of the sandbox is left.
    pub async fn end(&mut self) -> io::Result<()> {
        if let Err(error) = self.find_guest() {
            tracing::debug!(%error, "failed to find the guest of bubblewrap {:?}", self.parent.pid);
        }
        match &self.guest {
            Some(guest) => {
                // An error means that it has ended.
                let _ = pidfd_send_signal(guest, Signal::KILL);
            }
            None => self.bwrap.start_kill()?,
        }
        let ended = tokio::time::timeout(END_LIMIT, self.bwrap.wait()).await;
        if ended.is_err() {
            // Takes the guest with it, by its parent-death signal.
            self.bwrap.start_kill()?;
            self.bwrap.wait().await?;
        }
        let Some(guest) = self.guest.clone() else {
            return Ok(());
        };
        // Whoever killed bubblewrap first, its child may not be gone yet.
        tokio::task::spawn_blocking(move || wait_for_end(&guest))
            .await
            .map_err(io::Error::other)?
    }
}

fn wait_for_end(process: &OwnedFd) -> io::Result<()> {
    let limit = Timespec::try_from(END_LIMIT).map_err(io::Error::other)?;
    // A pidfd is readable once its process has ended (pidfd_open(2)).
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    match poll(&mut fds, Some(&limit))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(guest) = &self.guest {
            let _ = pidfd_send_signal(guest, Signal::KILL);
        }
    }
}
