//! The sandbox that is wanted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Capabilities, Capability, Limits};

/// What of the network a sandbox reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkPolicy {
    /// Nothing, the host's loopback included.
    #[default]
    Disabled,
    /// Everything that the backend's network reaches.
    AllowAll,
}

/// What a session asks of its backend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxSpec {
    /// What of the software it sees; `None`: what the operator gives every sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Added to the environment of every run.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub network: NetworkPolicy,
    #[serde(default)]
    pub limits: Limits,
}

impl SandboxSpec {
    /// What a backend must be able to do to make this sandbox.
    pub fn required(&self) -> Capabilities {
        let mut required = Capabilities::from([Capability::Exec, Capability::Files]);
        if self.network != NetworkPolicy::Disabled {
            required.insert(Capability::Network);
        }
        if self.image.is_some() {
            required.insert(Capability::Images);
        }
        required
    }
}
