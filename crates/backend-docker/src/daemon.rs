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
/// How long one call may take.
const CALL_LIMIT_SECONDS: u64 = 120;

pub(crate) struct Daemon {
    host: Option<String>,
    names: Names,
    pub events: Events,
    /// Known once it has answered, for the API's version is agreed on.
    client: OnceCell<Docker>,
}

impl Daemon {
    pub fn new(host: Option<String>, names: Names) -> Self {
        Self {
            host,
            names,
            events: Events::default(),
            client: OnceCell::new(),
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
                    .map_err(|error| failed("take a connection", error))?
                    .with_timeout(Duration::from_secs(CALL_LIMIT_SECONDS));
                let docker = timeout(PING_LIMIT, docker.negotiate_version())
                    .await
                    .map_err(|_| unavailable("the Docker daemon does not answer"))?
                    .map_err(|error| failed("answer", error))?;
                self.events.listen(docker.clone(), self.names.clone());
                Ok(docker)
            })
            .await
    }

    /// What keeps sandboxes from being made now.
    pub async fn check(&self, config: &DockerConfig) -> Option<Problem> {
        let info = async { self.client().await.ok()?.info().await.ok() };
        let Ok(Some(info)) = timeout(PING_LIMIT, info).await else {
            return Some(Problem::new(
                "the Docker daemon does not answer",
                "start it, or set `docker_host` (or DOCKER_HOST) to where it listens; the \
                 service's user must be allowed to use its socket",
            ));
        };
        let runtimes = info.runtimes.unwrap_or_default();
        if let Some(runtime) = &config.runtime
            && !runtimes.contains_key(runtime)
        {
            return Some(Problem::new(
                format!("the Docker daemon has no runtime `{runtime}`"),
                "install it and name it in the daemon's `runtimes`, or change `docker_runtime`",
            ));
        }
        let has_cdi = info.cdi_spec_dirs.is_some_and(|dirs| !dirs.is_empty());
        if config.gpu.is_some() && !runtimes.contains_key("nvidia") && !has_cdi {
            return Some(Problem::new(
                "the Docker daemon has neither the runtime `nvidia` nor CDI",
                "install the NVIDIA Container Toolkit on its machine, or unset `gpu_enabled`",
            ));
        }
        None
    }
}
