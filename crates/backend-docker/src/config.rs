//! What an operator decides.

use std::time::Duration;

use bytes::Bytes;

const PULL_LIMIT: Duration = Duration::from_secs(600);
/// A daemon under load may take its time.
const START_LIMIT: Duration = Duration::from_secs(30);
/// For a service that was killed, or its successor.
const ALONE_LIMIT: Duration = Duration::from_secs(600);

/// What happens when the image is not on the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PullPolicy {
    /// It is pulled.
    #[default]
    Missing,
    /// Sandboxes are refused.
    Never,
}

#[derive(Clone, Debug)]
pub struct DockerConfig {
    /// `unix://`, `tcp://` or `http://`; `None`: `DOCKER_HOST`, or the local socket.
    pub host: Option<String>,
    /// Whose containers and volumes these are: services that share a daemon differ in it.
    pub owner: String,
    /// Of sandboxes that name none.
    pub image: String,
    /// What sandboxes may name beside it.
    pub images: Vec<String>,
    pub pull: PullPolicy,
    pub pull_limit: Duration,
    /// Such as `runsc`; `None`: the daemon's default.
    pub runtime: Option<String>,
    /// The Docker network of sandboxes that may reach the network; `None`: none may.
    pub network: Option<String>,
    pub gpu: Option<Gpu>,
    /// The guest, static and for the daemon's architecture.
    pub guest: Bytes,
    /// How long a started container may take to answer.
    pub start_timeout: Duration,
    /// How long a container goes on without a service.
    pub alone_limit: Duration,
    /// Modules that a warm Python imports; `None`: each run starts its own.
    pub python_preload: Option<Vec<String>>,
}

impl DockerConfig {
    /// What is usual, on the daemon that is usual.
    pub fn new(owner: impl Into<String>, image: impl Into<String>, guest: Bytes) -> Self {
        Self {
            host: None,
            owner: owner.into(),
            image: image.into(),
            images: Vec::new(),
            pull: PullPolicy::default(),
            pull_limit: PULL_LIMIT,
            runtime: None,
            network: None,
            gpu: None,
            guest,
            start_timeout: START_LIMIT,
            alone_limit: ALONE_LIMIT,
            python_preload: None,
        }
    }
}

impl DockerConfig {
    /// A network that gives sandboxes somebody else's network namespace.
    pub(crate) fn shared_network(&self) -> Option<&str> {
        let of_gpu = self.gpu.as_ref().and_then(|gpu| gpu.network.as_deref());
        [self.network.as_deref(), of_gpu]
            .into_iter()
            .flatten()
            .find(|network| *network == "host" || network.starts_with("container:"))
    }
}

/// Every sandbox sees all GPUs of the daemon's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The Docker network that they reach then; `None`: none.
    pub network: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_namespace_is_nobody_elses() {
        let mut config = DockerConfig::new("o", "image", Bytes::new());
        assert_eq!(config.shared_network(), None);
        for (network, shared) in [
            ("bridge", None),
            ("hosts", None),
            ("host", Some("host")),
            ("container:abc", Some("container:abc")),
        ] {
            config.network = Some(network.to_owned());
            assert_eq!(config.shared_network(), shared);
        }
        config.network = None;
        config.gpu = Some(Gpu {
            network: Some("host".to_owned()),
        });
        assert_eq!(config.shared_network(), Some("host"));
    }
}
