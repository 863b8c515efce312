//! What an operator decides.

use std::time::Duration;

use bytes::Bytes;

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
}

/// Every sandbox sees all GPUs of the daemon's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The Docker network that they reach then; `None`: none.
    pub network: Option<String>,
}
