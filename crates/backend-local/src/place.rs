//! A running sandbox.
//!
//! ```text
//! running ── stop(), the handle dropped, the connection lost ──> killed ──┐
//!    └────────────── its processes ended by themselves ───────────────────┴──> ended
//! ```
//!
//! One task owns the processes and the cgroups until they are gone; the handle only
//! tells it to end.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use guest_client::{GuestClient, GuestConfig};
use sandbox_backend::{Place, Usage};
use sandbox_core::{Error, Limits, Result, SandboxSpec, chain};
use tokio::{
    io::AsyncReadExt as _,
    process::ChildStderr,
    sync::{oneshot, watch},
    time::timeout,
};

use crate::{cgroup::Group, process::Process, spawn::Spawner};

/// How long `stop` waits for the processes and the cgroups.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// Kept of what bubblewrap and the guest complain about.
const STDERR_BYTES: u64 = 8 * 1024;

pub(crate) struct LocalPlace {
    guest: GuestClient,
    pub(crate) group: Arc<Group>,
    spec: SandboxSpec,
    /// Memory, processors and processes are limited by cgroups, which can be told others.
    can_change: bool,
    /// Dropped with the handle, which ends the sandbox too.
    end: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
    _spawner: Arc<Spawner>,
}

/// What the task owns.
struct Running {
    process: Process,
    group: Arc<Group>,
    /// Sandboxes die with the thread that started them.
    spawner: Arc<Spawner>,
}

impl LocalPlace {
    /// Takes over a sandbox that was just started. The other value is what it has
    /// complained about, when it has ended.
    pub fn new(
        guest: GuestClient,
        process: Process,
        group: Arc<Group>,
        spec: SandboxSpec,
        can_change: bool,
        stderr: Option<ChildStderr>,
        spawner: Arc<Spawner>,
    ) -> (Self, oneshot::Receiver<String>) {
        let (end, end_asked) = watch::channel(false);
        let (set_ended, ended) = watch::channel(false);
        let (tell, complaint) = oneshot::channel();
        let place = Self {
            guest: guest.clone(),
            group: Arc::clone(&group),
            spec,
            can_change,
            end,
            ended,
            _spawner: Arc::clone(&spawner),
        };
        let running = Running {
            process,
            group,
            spawner,
        };
        let connection_lost = guest.closed();
        drop(guest);
        // Ends with the sandbox, which ends at the latest with the handle.
        tokio::spawn(async move {
            let (_, stderr) = tokio::join!(
                async {
                    running.until_ended(end_asked, connection_lost).await;
                    let _ = set_ended.send(true);
                },
                read_stderr(stderr)
            );
            let _ = tell.send(stderr);
        });
        (place, complaint)
    }

    /// Tells that the sandbox has ended, as often as it is asked.
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.ended.clone()
    }
}

impl Running {
    async fn until_ended(
        mut self,
        mut end_asked: watch::Receiver<bool>,
        connection_lost: impl Future<Output = ()>,
    ) {
        tokio::select! {
            _ = self.process.bwrap_ended() => {}
            // An error means that the handle is gone.
            _ = end_asked.wait_for(|end| *end) => {}
            _ = connection_lost => {}
        }
        if let Err(error) = self.process.end().await {
            tracing::error!(%error, "a sandbox's processes do not end");
        }
        let group = Arc::clone(&self.group);
        // Also kills what is left, if the kernel left something.
        let group_ended = tokio::task::spawn_blocking(move || group.end()).await;
        if let Ok(Err(error)) = group_ended {
            tracing::warn!("{}", chain(&error));
        }
        drop(self.spawner);
    }
}

/// Reads to the end, so that no writer is held up, and keeps the beginning.
async fn read_stderr(stderr: Option<ChildStderr>) -> String {
    let Some(mut stderr) = stderr else {
        return String::new();
    };
    let mut kept = Vec::new();
    let head = (&mut stderr).take(STDERR_BYTES);
    let _ = { head }.read_to_end(&mut kept).await;
    let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&kept).trim().to_owned()
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
        self.group.usage()
    }

    fn suits(&self, spec: &SandboxSpec) -> bool {
        let (made, wanted) = (&self.spec.limits, &spec.limits);
        let same = Limits {
            disk: made.disk,
            tmp: made.tmp,
            ..wanted.clone()
        };
        let same = match self.can_change {
            true => same == *wanted,
            false => made == wanted,
        };
        same && spec.network == self.spec.network && spec.image == self.spec.image
    }

    async fn adapt(&self, spec: &SandboxSpec) -> Result<()> {
        if spec.limits != self.spec.limits {
            let (group, limits) = (Arc::clone(&self.group), spec.limits.clone());
            tokio::task::spawn_blocking(move || group.set_limits(&limits))
                .await
                .map_err(Error::internal)?
                .map_err(Error::from)?;
        }
        let config = GuestConfig {
            env: spec.env.clone(),
        };
        self.guest.init(&config).await
    }

    async fn stop(&self) -> Result<()> {
        let _ = self.end.send(true);
        timeout(STOP_LIMIT, self.gone())
            .await
            .map_err(|_| Error::internal("the sandbox's processes do not end"))
    }

    fn gone(&self) -> BoxFuture<'static, ()> {
        let mut ended = self.ended.clone();
        Box::pin(async move {
            // An error means that the task is gone, and the processes with it.
            let _ = ended.wait_for(|ended| *ended).await;
        })
    }
}
