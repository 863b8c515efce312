//! Sandboxes as the control plane shows them (`Sandbox`, `SandboxDetail`,
//! `ListedSandbox` and `SandboxMetric` of spec/openapi.yml).

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::NetworkConfig;

/// A sandbox for those who may use it: the answer of create and connect.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    #[serde(rename = "templateID")]
    pub template_id: String,
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    #[serde(rename = "clientID", default)]
    pub client_id: String,
    /// Which calls of envd there are; three numbers.
    pub envd_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<String>,
    #[serde(default)]
    pub traffic_access_token: Option<String>,
    /// Where its ports are: `{port}-{sandboxID}.{domain}`.
    #[serde(default)]
    pub domain: Option<String>,
}

// Without the tokens.
impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("sandbox_id", &self.sandbox_id)
            .field("template_id", &self.template_id)
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxState {
    Running,
    Paused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    Kill,
    Pause,
}

/// What a pause keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PauseMode {
    Full,
    Filesystem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    pub auto_resume: bool,
    pub on_timeout: OnTimeout,
}

/// An item of a list of sandboxes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedSandbox {
    #[serde(rename = "templateID")]
    pub template_id: String,
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    #[serde(rename = "clientID", default)]
    pub client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    pub started_at: Timestamp,
    pub end_at: Timestamp,
    pub envd_version: String,
    pub cpu_count: u32,
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    pub state: SandboxState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

/// The answer of `GET /sandboxes/{id}`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxDetail {
    #[serde(flatten)]
    pub listed: ListedSandbox,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<String>,
    #[serde(default)]
    pub domain: Option<String>,
    /// `None`: nobody said what it shall be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_internet_access: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkConfig>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_mode: Option<PauseMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_mounts: Option<Vec<Value>>,
}

impl fmt::Debug for SandboxDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxDetail")
            .field("listed", &self.listed)
            .field("domain", &self.domain)
            .field("lifecycle", &self.lifecycle)
            .finish_non_exhaustive()
    }
}

/// What a sandbox used at one time; sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxMetric {
    pub timestamp: Timestamp,
    pub timestamp_unix: i64,
    pub cpu_count: u32,
    pub cpu_used_pct: f64,
    pub mem_used: u64,
    pub mem_total: u64,
    #[serde(default)]
    pub mem_cache: u64,
    pub disk_used: u64,
    pub disk_total: u64,
}

/// The answer of envd's `GET /metrics` (envd.yaml of e2b-dev/infra).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EnvdMetrics {
    pub ts: i64,
    pub cpu_count: u32,
    pub cpu_used_pct: f64,
    pub mem_total: u64,
    pub mem_used: u64,
    pub mem_cache: u64,
    pub disk_used: u64,
    pub disk_total: u64,
}

impl From<EnvdMetrics> for SandboxMetric {
    fn from(metrics: EnvdMetrics) -> Self {
        Self {
            timestamp: Timestamp::from_second(metrics.ts).unwrap_or(Timestamp::UNIX_EPOCH),
            timestamp_unix: metrics.ts,
            cpu_count: metrics.cpu_count,
            cpu_used_pct: metrics.cpu_used_pct,
            mem_used: metrics.mem_used,
            mem_total: metrics.mem_total,
            mem_cache: metrics.mem_cache,
            disk_used: metrics.disk_used,
            disk_total: metrics.disk_total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_create_is_what_was_seen_on_the_wire() {
        let text = r#"{"templateID":"base","sandboxID":"i07e01566d2e0433aa1d","clientID":"local","envdVersion":"0.6.4","envdAccessToken":"envdtok-..","trafficAccessToken":"traftok-..","domain":null}"#;
        let sandbox: Sandbox = serde_json::from_str(text).unwrap();
        assert_eq!(sandbox.sandbox_id, "i07e01566d2e0433aa1d");
        assert_eq!(serde_json::to_string(&sandbox).unwrap(), text);
        assert!(!format!("{sandbox:?}").contains("tok-"));
    }

    #[test]
    fn a_sandbox_of_a_list_has_what_the_sdks_need_of_it() {
        let text = r#"{"templateID":"t","sandboxID":"i1","clientID":"c","startedAt":"2026-01-02T03:04:05.123456789Z","endAt":"2026-01-02T04:04:05+00:00","envdVersion":"0.6.4","cpuCount":2,"memoryMB":512,"diskSizeMB":1024,"state":"paused","metadata":{"a":"b"}}"#;
        let listed: ListedSandbox = serde_json::from_str(text).unwrap();
        assert_eq!(listed.state, SandboxState::Paused);
        assert_eq!(listed.started_at.as_millisecond(), 1_767_323_045_123);
        let detail: SandboxDetail = serde_json::from_str(text).unwrap();
        let again = serde_json::to_value(&detail).unwrap();
        assert_eq!(again["endAt"], "2026-01-02T04:04:05Z");
        assert_eq!(again["memoryMB"], 512);
        assert_eq!(again["domain"], Value::Null);
    }

    #[test]
    fn the_metrics_of_envd_are_those_of_the_control_plane() {
        let text = r#"{"ts":1700000000,"cpu_count":2,"cpu_used_pct":12.5,"mem_total":4,"mem_used":3,"mem_cache":1,"disk_used":5,"disk_total":6,"mem_total_mib":0}"#;
        let metrics: EnvdMetrics = serde_json::from_str(text).unwrap();
        let metric = serde_json::to_value(SandboxMetric::from(metrics)).unwrap();
        assert_eq!(metric["timestamp"], "2023-11-14T22:13:20Z");
        assert_eq!(metric["timestampUnix"], 1_700_000_000);
        assert_eq!(metric["cpuUsedPct"], 12.5);
        assert_eq!(metric["memCache"], 1);
    }
}
