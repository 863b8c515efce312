//! What an operator decides.

use std::time::Duration;

use bytes::Bytes;
use sandbox_core::Limits;

use crate::{Secret, address::Servers};

const START_LIMIT: Duration = Duration::from_secs(20);
/// E2B's own ceiling for teams that pay nothing is an hour.
const LIFE: Duration = Duration::from_secs(900);

/// How the guest in a sandbox is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Door {
    /// The first of the others that works.
    #[default]
    Auto,
    /// It listens on a port of the sandbox.
    Port,
    /// It is a command of envd, whose input and output are the connection.
    Command,
    /// There is none: envd does what it can.
    Envd,
}

#[derive(Clone, Debug)]
pub struct E2bConfig {
    pub api_key: Secret,
    pub servers: Servers,
    /// What sandboxes are made of.
    pub template: String,
    /// Sandboxes that ask for it reach the internet.
    pub allow_internet: bool,
    /// Sandboxes are made with tokens, without which nobody reaches their files.
    pub secure: bool,
    pub door: Door,
    /// Whose sandboxes these are: services that share an account differ in it.
    pub owner: String,
    /// What the tokens of guests are made from.
    pub secret: Secret,
    /// The guest, static and for the sandboxes' architecture.
    pub guest: Bytes,
    /// What a sandbox's template is said to give: no spec may ask for anything else.
    pub limits: Limits,
    /// How long a sandbox goes on without this service.
    pub life: Duration,
    /// How long a sandbox may take to answer once it is there.
    pub start_timeout: Duration,
    /// Modules that a warm Python imports; `None`: each run starts its own.
    pub python_preload: Option<Vec<String>>,
}

impl E2bConfig {
    /// What is usual; `secret` is this service's alone.
    pub fn new(
        api_key: Secret,
        servers: Servers,
        owner: impl Into<String>,
        secret: Secret,
        guest: Bytes,
    ) -> Self {
        Self {
            api_key,
            servers,
            template: "base".into(),
            allow_internet: false,
            secure: true,
            door: Door::default(),
            owner: owner.into(),
            secret,
            guest,
            limits: Limits::default(),
            life: LIFE,
            start_timeout: START_LIMIT,
            python_preload: None,
        }
    }
}
