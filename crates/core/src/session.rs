//! What a session is asked to be, beside its sandbox.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

/// What its owner chose; all of it is empty for a session that its first call made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionOptions {
    /// Words of its owner's, to find it by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Of runs that name no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_timeout: Option<Duration>,
    /// Of what was asked for, so that the same request is known again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_sha256: Option<String>,
    #[serde(skip_serializing_if = "OnEnd::is_delete")]
    pub on_end: OnEnd,
    /// Of a session that the E2B API made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e2b: Option<E2bOptions>,
}

/// What happens to a session whose time to live is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnEnd {
    #[default]
    Delete,
    /// It is kept as a paused one is.
    Pause,
    /// The same without its processes.
    PauseFiles,
}

impl OnEnd {
    fn is_delete(&self) -> bool {
        *self == Self::Delete
    }
}

/// What the E2B API tells of a sandbox beside what every session has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct E2bOptions {
    /// The template as it was asked for.
    pub template: String,
    /// Goes into its tokens, so that those of one that had the same name before are none.
    pub token_salt: String,
    /// Traffic to it while it is paused resumes it.
    pub auto_resume: bool,
    /// Whether its ports are open to those who have no traffic token.
    pub public_traffic: bool,
}
