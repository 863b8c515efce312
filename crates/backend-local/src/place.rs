//! One local sandbox that runs.

use std::{
    io::Read as _,
    process::Child,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{FutureExt as _, future::BoxFuture};
use guest_client::GuestClient;
use sandbox_backend::{Place, Usage};
use sandbox_core::{Error, ErrorCode, Result};
use tokio::sync::watch;
use tracing::warn;

use crate::cgroup::Group;

/// How long the kernel may take to end a sandbox that was killed.
const END_LIMIT: Duration = Duration::from_secs(20);
/// What is kept of bubblewrap's complaints.
const MAX_COMPLAINT_BYTES: u64 = 8 * 1024;

/// Bubblewrap, and with it all that runs in its sandbox.
#[derive(Clone)]
pub(crate) struct Bwrap(Arc<Mutex<Option<Child>>>);

impl Bwrap {
    pub fn new(child: Child) -> Self {
        Self(Arc::new(Mutex::new(Some(child))))
    }

    /// Kills it; the kernel then kills the guest, and all below it.
    pub fn kill(&self) {
        let mut child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(child) = child.as_mut() {
            let _ = child.kill();
        }
    }

    /// Kills it, waits for its end, and gives what it had to say. Blocks.
    pub fn reap(&self) -> String {
        self.kill();
        let child = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut complaint = Vec::new();
        if let Some(mut child) = child {
            let _ = child.wait();
            if let Some(stderr) = child.stderr.take() {
                let _ = stderr.take(MAX_COMPLAINT_BYTES).read_to_end(&mut complaint);
            }
        }
        String::from_utf8_lossy(&complaint).trim().to_owned()
    }
}

pub(crate) struct LocalPlace {
    guest: GuestClient,
    bwrap: Bwrap,
    group: Group,
    gone: watch::Receiver<bool>,
}

impl LocalPlace {
    pub fn new(guest: GuestClient, bwrap: Bwrap, group: Group) -> Self {
        let (ended, gone) = watch::channel(false);
        tokio::spawn(until_gone(guest.closed(), bwrap.clone(), group.clone(), ended));
        Self {
            guest,
            bwrap,
            group,
            gone,
        }
    }
}

/// The connection ends when the guest does: no process lives longer than it.
async fn until_gone(
    closed: impl Future<Output = ()> + Send,
    bwrap: Bwrap,
    group: Group,
    ended: watch::Sender<bool>,
) {
    closed.await;
    let cleaned = tokio::task::spawn_blocking(move || {
        let complaint = bwrap.reap();
        group.remove();
        complaint
    });
    if let Ok(complaint) = cleaned.await
        && !complaint.is_empty()
    {
        warn!("bubblewrap said: {complaint}");
    }
    let _ = ended.send(true);
}

#[async_trait]
impl Place for LocalPlace {
    fn guest(&self) -> &GuestClient {
        &self.guest
    }

    fn oom_kills(&self) -> Option<u64> {
        self.group.oom_kills()
    }

    fn usage(&self) -> Usage {
        Usage {
            memory_bytes: self.group.memory_bytes(),
            cpu_seconds: self.group.cpu_seconds(),
            pids: self.group.pids(),
        }
    }

    async fn stop(&self) -> Result<()> {
        self.bwrap.kill();
        tokio::time::timeout(END_LIMIT, self.gone())
            .await
            .map_err(|_| Error::new(ErrorCode::Timeout, "the sandbox does not end"))
    }

    fn gone(&self) -> BoxFuture<'static, ()> {
        let mut gone = self.gone.clone();
        async move {
            let _ = gone.wait_for(|gone| *gone).await;
        }
        .boxed()
    }
}

impl Drop for LocalPlace {
    fn drop(&mut self) {
        self.bwrap.kill();
    }
}
