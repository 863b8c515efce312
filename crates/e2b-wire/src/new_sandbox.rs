//! What is sent to make and change a sandbox (`NewSandbox` and its neighbours of
//! spec/openapi.yml, and the v2 routes' variants of them).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::NetworkConfig;

/// The body of `POST /sandboxes` and `POST /v2/sandboxes`. No `Debug`: `env_vars`
/// hold secrets.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSandbox {
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Seconds; without it, 300 on v2 and 15 on v1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<BTreeMap<String, String>>,
    /// In snake case, unlike all others.
    #[serde(
        default,
        rename = "allow_internet_access",
        skip_serializing_if = "Option::is_none"
    )]
    pub allow_internet_access: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause: Option<bool>,
    /// Whether a pause at the timeout keeps the memory too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause_memory: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_resume: Option<AutoResume>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkConfig>,
    /// v1 alone; v2 is always secure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iam: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_mounts: Option<Vec<Value>>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoResume {
    #[serde(default)]
    pub enabled: bool,
}

/// The body of `POST /sandboxes/{id}/connect`, which resumes a paused sandbox and
/// never shortens the time of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectSandbox {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u32>,
    /// False: its programs may be started anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
}

/// The body of `POST /sandboxes/{id}/resume`, which newer SDKs do not call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeSandbox {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause: Option<bool>,
}

/// The body of `POST /sandboxes/{id}/timeout`: seconds from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxTimeout {
    pub timeout: u32,
}

/// The body of `POST /sandboxes/{id}/refreshes`: seconds from now, but not earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshSandbox {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<u32>,
}

/// The body of `POST /sandboxes/{id}/pause`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PauseSandbox {
    /// `None` is true: programs go on where they were after a resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_healthy_guest: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_python_sdk_sends_is_read() {
        let text = r#"{"templateID":"base","timeout":120,"allow_internet_access":false,
            "metadata":{"k":"v"},"envVars":{"A":"1"},"autoPause":true,
            "autoResume":{"enabled":true},"network":{"allowPublicTraffic":false,"newKnob":1},
            "soon":{"x":1}}"#;
        let new: NewSandbox = serde_json::from_str(text).unwrap();
        assert_eq!(new.template_id, "base");
        assert_eq!(new.timeout, Some(120));
        assert_eq!(new.allow_internet_access, Some(false));
        assert_eq!(new.env_vars.unwrap()["A"], "1");
        assert_eq!(new.auto_resume, Some(AutoResume { enabled: true }));
        let network = new.network.unwrap();
        assert_eq!(network.allow_public_traffic, Some(false));
        assert!(network.unknown.contains_key("newKnob"));
        assert_eq!(new.unknown.keys().collect::<Vec<_>>(), ["soon"]);
    }

    #[test]
    fn what_is_not_asked_for_is_not_sent() {
        let new = NewSandbox {
            template_id: "base".into(),
            allow_internet_access: Some(false),
            ..NewSandbox::default()
        };
        assert_eq!(
            serde_json::to_string(&new).unwrap(),
            r#"{"templateID":"base","allow_internet_access":false}"#
        );
    }

    #[test]
    fn a_timeout_is_a_number_of_seconds() {
        for bad in [r#"{"timeout":-1}"#, r#"{"timeout":"1"}"#, "{}"] {
            assert!(
                serde_json::from_str::<SandboxTimeout>(bad).is_err(),
                "{bad}"
            );
        }
    }
}
