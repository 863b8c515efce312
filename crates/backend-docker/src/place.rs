//! A container that runs.
//!
//! ```text
//! running ── stop(), the handle dropped, the connection lost ──> removed ──> ended
//!    └────────── the daemon says that it died ─────────────────────┘
//! ```
//!
//! One task owns the container until it is removed; the handle only tells it to end.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bollard::{Docker, query_parameters::RemoveContainerOptions};
use futures::future::BoxFuture;
use guest_client::{GuestClient, GuestConfig};
use sandbox_backend::{Place, Usage};
use sandbox_core::{Error, Limits, Result, SandboxSpec};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::warn;

use crate::{
    config::DockerConfig,
    container,
    error::{failed, is_conflict, is_forbidden, is_missing},
    events::Death,
};

/// How long `stop` waits for the container's end.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// Between two tries to remove a container, while the daemon is away for example.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// Between two looks for a container that somebody else removes.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub(crate) struct DockerPlace {
    guest: GuestClient,
    docker: Docker,
    container: String,
    config: Arc<DockerConfig>,
    /// What of it cannot be changed.
    shape: String,
    /// As it was made.
    limits: Limits,
    /// Of the daemon's machine.
    processors: i64,
    /// Dropped with the handle, which ends the sandbox too.
    end: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
}

impl DockerPlace {
    pub fn new(
        guest: GuestClient,
        docker: Docker,
        container: String,
        config: Arc<DockerConfig>,
        spec: &SandboxSpec,
        processors: i64,
        death: Death,
    ) -> Self {
        let (end, mut end_asked) = watch::channel(false);
        let (set_ended, ended) = watch::channel(false);
        let connection_lost = guest.closed();
        let (daemon, id) = (docker.clone(), container.clone());
        // Ends with the container, which ends at the latest with the handle.
        tokio::spawn(async move {
            tokio::select! {
                // An error means that the handle is gone.
                _ = end_asked.wait_for(|end| *end) => {}
                () = connection_lost => {}
                () = death.told() => {}
            }
            remove(&daemon, &id).await;
            let _ = set_ended.send(true);
        });
        Self {
            guest,
            docker,
            container,
            shape: container::fixed(&config, spec),
            limits: spec.limits.clone(),
            config,
            processors,
            end,
            ended,
        }
    }

    /// Tells that the container is gone, as often as it is asked.
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.ended.clone()
    }
}

/// Kills and removes a container, however often that takes, with the volumes that
/// its image has asked for. Afterwards it is gone.
pub(crate) async fn remove(docker: &Docker, container: &str) {
    let mut told = false;
    loop {
        let options = RemoveContainerOptions {
            force: true,
            v: true,
            ..Default::default()
        };
        match docker.remove_container(container, Some(options)).await {
            Ok(()) => return,
            Err(error) if is_missing(&error) => return,
            // It is not this service's: a gate before the daemon says so.
            Err(error) if is_forbidden(&error) => {
                warn!("a container is not ours to remove: {error}");
                return;
            }
            // Somebody else removes it: until that is done its name and volume are taken.
            Err(error) if is_conflict(&error) => sleep(LOOK_AGAIN).await,
            Err(error) => {
                if !told {
                    warn!("failed to remove a container, trying again: {error}");
                }
                told = true;
                sleep(TRY_AGAIN).await;
            }
        }
    }
}

/// Gives a container that lives the limits of a spec.
pub(crate) async fn limit(
    docker: &Docker,
    container: &str,
    spec: &SandboxSpec,
    processors: i64,
) -> Result<()> {
    docker
        .update_container(container, container::update(spec, processors))
        .await
        .map_err(|error| failed("change the limits of a container", error))
}

#[async_trait]
impl Place for DockerPlace {
    fn guest(&self) -> &GuestClient {
        &self.guest
    }

    /// The guest tells it with the end of a run.
    fn oom_kills(&self) -> Option<u64> {
        None
    }

    /// The guest is asked, where somebody wants to know.
    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn suits(&self, spec: &SandboxSpec) -> bool {
        container::fixed(&self.config, spec) == self.shape
    }

    async fn adapt(&self, spec: &SandboxSpec) -> Result<()> {
        let config = GuestConfig {
            env: spec.env.clone(),
        };
        // The daemon takes longer than a run does.
        if spec.limits != self.limits {
            limit(&self.docker, &self.container, spec, self.processors).await?;
        }
        self.guest.init(&config).await
    }

    async fn stop(&self) -> Result<()> {
        let _ = self.end.send(true);
        timeout(STOP_LIMIT, self.gone())
            .await
            .map_err(|_| Error::internal("the container does not end"))
    }

    fn gone(&self) -> BoxFuture<'static, ()> {
        let mut ended = self.ended.clone();
        Box::pin(async move {
            // An error means that the task is gone, and the container with it.
            let _ = ended.wait_for(|ended| *ended).await;
        })
    }
}
