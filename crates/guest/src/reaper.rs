//! The one place that waits for children.
//!
//! As PID 1 the guest inherits every orphan of the sandbox, so it must wait
//! for any child, and nobody else may wait for one of their own.

use std::{
    collections::HashMap,
    io,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::process::{WaitOptions, wait};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

type Waiters = HashMap<i32, oneshot::Sender<()>>;

#[derive(Clone, Default)]
pub(crate) struct Reaper(Arc<Mutex<Waiters>>);

impl Reaper {
    /// Starts to reap; the task lives as long as the guest.
    pub fn start() -> io::Result<Self> {
        let reaper = Self::default();
        let reaping = reaper.clone();
        let mut children = signal(SignalKind::child())?;
        tokio::spawn(async move {
            while children.recv().await.is_some() {
                reaping.reap();
            }
        });
        Ok(reaper)
    }

    /// Starts a child and gives its pid; the receiver resolves when it has ended.
    pub fn spawn(&self, command: &mut Command) -> io::Result<(i32, oneshot::Receiver<()>)> {
        let (ended, wait) = oneshot::channel();
        // Held over the spawn, so that a child that ends at once finds its waiter.
        let mut waiters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).unwrap_or(-1);
        waiters.insert(pid, ended);
        Ok((pid, wait))
    }

    fn reap(&self) {
        let mut waiters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(Some((pid, _))) = wait(WaitOptions::NOHANG) {
            if let Some(ended) = waiters.remove(&pid.as_raw_nonzero().get()) {
                let _ = ended.send(());
            }
        }
    }
}
