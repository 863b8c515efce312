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
    bwrap_pid: u32,
    guest: Option<Arc<OwnedFd>>,
}

impl Process {
    /// Takes over a bubblewrap that was just started.
    pub fn new(bwrap: Child) -> io::Result<Self> {
        let bwrap_pid = bwrap.id().ok_or(io::ErrorKind::NotFound)?;
        Ok(Self {
            bwrap,
            bwrap_pid,
            guest: None,
        })
    }

    /// Looks for the guest's process, which bubblewrap forks at some time.
    fn find_guest(&mut self) -> io::Result<()> {
        if self.guest.is_some() {
            return Ok(());
        }
        let Some(pid) = self.child_of_bwrap()? else {
            return Ok(());
        };
        let guest = pidfd_open(pid, PidfdFlags::empty())?;
        // Still bubblewrap's child, so the number had not gone to another process.
        if self.child_of_bwrap()? == Some(pid) {
            self.guest = Some(Arc::new(guest));
        }
        Ok(())
    }

    fn child_of_bwrap(&self) -> io::Result<Option<Pid>> {
        // Ours, and not waited for yet, so the number is still its own.
        let Some(pid) = self.bwrap.id() else {
            return Ok(None);
        };
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let child = children.split_whitespace().next();
        Ok(child
            .and_then(|child| child.parse().ok())
            .and_then(Pid::from_raw))
    }

    /// Waits until bubblewrap has ended, as it does after the guest.
    pub async fn bwrap_ended(&mut self) -> io::Result<()> {
        self.bwrap.wait().await.map(drop)
    }

    /// Kills what runs, and waits until no process of the sandbox is left.
    pub async fn end(&mut self) -> io::Result<()> {
        if let Err(error) = self.find_guest() {
            tracing::debug!(%error, "failed to find the guest of bubblewrap {}", self.bwrap_pid);
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
