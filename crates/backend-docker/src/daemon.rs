//! The connection to the daemon.

use std::time::Duration;

use bollard::Docker;
use sandbox_backend::Problem;
use sandbox_core::Result;
use tokio::{sync::OnceCell, time::timeout};

use crate::{
    config::DockerConfig,
    error::{failed, unavailable},
    events::Events,
    names::Names,
};

/// How long the daemon may take to say who it is.
const PING_LIMIT: Duration = Duration::from_secs(5);
const AWAY: &str = "the Docker daemon does not answer; start it, or set `docker_host` (or \
                    DOCKER_HOST) to where it listens";
/// How long one call may take.
const CALL_LIMIT_SECONDS: u64 = 120;

pub(crate) struct Daemon {
    host: Option<String>,
    names: Names,
    pub events: Events,
    /// Known once it has answered, for the API's version is agreed on.
    client: OnceCell<Docker>,
    processors: OnceCell<i64>,
}

impl Daemon {
    pub fn new(host: Option<String>, names: Names) -> Self {
        Self {
            host,
            names,
            events: Events::default(),
            client: OnceCell::new(),
            processors: OnceCell::new(),
        }
    }

    pub async fn client(&self) -> Result<&Docker> {
        self.client
            .get_or_try_init(|| async {
                let docker = match &self.host {
                    Some(host) => Docker::connect_with_host(host),
                    None => Docker::connect_with_defaults(),
                };
                let docker = docker
                    .map_err(|error| unavailable(AWAY).with_source(error))?
                    .with_timeout(Duration::from_secs(CALL_LIMIT_SECONDS));
                let docker = match timeout(PING_LIMIT, docker.negotiate_version()).await {
                    Ok(Ok(docker)) => docker,
                    Ok(Err(error)) => return Err(unavailable(AWAY).with_source(error)),
                    Err(late) => return Err(unavailable(AWAY).with_source(late)),
                };
                self.events.listen(docker.clone(), self.names.clone());
                Ok(docker)
            })
            .await
    }

    /// How many its machine has: it refuses containers that may use more.
    pub async fn processors(&self) -> Result<i64> {
        let ask = || async {
            let info = self.client().await?.info().await;
            let info = info.map_err(|error| failed("tell what it has", error))?;
            Ok(info.ncpu.filter(|n| *n > 0).unwrap_or(i64::MAX))
        };
        self.processors.get_or_try_init(ask).await.copied()
    }

    /// What keeps sandboxes from being made now.
    pub async fn check(&self, config: &DockerConfig) -> Option<Problem> {
        match timeout(PING_LIMIT, self.lacks(config)).await {
            Ok(Ok(lacks)) => lacks,
            _ => Some(Problem::new(
                "the Docker daemon does not answer",
                "start it, or set `docker_host` (or DOCKER_HOST) to where it listens; the \
                 service's user must be allowed to use its socket",
            )),
        }
    }

    /// What a daemon that answers does not have, or must not be asked for.
    pub async fn lacks(&self, config: &DockerConfig) -> Result<Option<Problem>> {
        if let Some(network) = config.shared_network() {
            return Ok(Some(Problem::new(
                format!("`{network}` is no network of its own"),
                "name a Docker network in `docker_network`: callers reach the loopback of \
                 sandboxes, which must not be the host's or another container's",
            )));
        }
        let info = self.client().await?.info().await;
        let info = info.map_err(|error| failed("tell what it has", error))?;
        let runtimes = info.runtimes.unwrap_or_default();
        if let Some(runtime) = &config.runtime
            && !runtimes.contains_key(runtime)
        {
            return Ok(Some(Problem::new(
                format!("the Docker daemon has no runtime `{runtime}`"),
                "install it and name it in the daemon's `runtimes`, or change `docker_runtime`",
            )));
        }
        let has_cdi = info.cdi_spec_dirs.is_some_and(|dirs| !dirs.is_empty());
        if config.gpu.is_some() && !runtimes.contains_key("nvidia") && !has_cdi {
            return Ok(Some(Problem::new(
                "the Docker daemon has neither the runtime `nvidia` nor CDI",
                "install the NVIDIA Container Toolkit on its machine, or unset `gpu_enabled`",
            )));
        }
        Ok(None)
    }
}
