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
}
