//! Whether a session is asked for in the same way as before.

use std::collections::BTreeMap;

use guest_client::messages::WriteRequest;
use sandbox_core::Error;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::create::{LimitsBody, Network};
use crate::problem::ApiResult;

/// What makes one request the same as another, however it is written. A backend and
/// capabilities are not in it: they have been found to be there, and change nothing.
#[derive(PartialEq, Serialize)]
pub(super) struct Asked<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image: Option<&'a str>,
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) network: Option<&'a Network>,
    pub(super) limits: &'a LimitsBody,
    pub(super) files: Vec<AskedFile<'a>>,
    pub(super) idle_timeout_seconds: Option<u64>,
    pub(super) ttl_seconds: Option<u64>,
    pub(super) labels: &'a BTreeMap<String, String>,
}

#[derive(PartialEq, Serialize)]
pub(super) struct AskedFile<'a> {
    path: &'a str,
    mode: u32,
    sha256: String,
}

impl<'a> From<&'a WriteRequest> for AskedFile<'a> {
    fn from(file: &'a WriteRequest) -> Self {
        Self {
            path: &file.path,
            mode: file.mode,
            sha256: sha256(&file.data),
        }
    }
}

impl Asked<'_> {
    /// None when nothing is asked for.
    pub(super) fn sha256(&self) -> ApiResult<Option<String>> {
        let nothing = Asked {
            image: None,
            env: &BTreeMap::new(),
            network: None,
            limits: &LimitsBody::default(),
            files: Vec::new(),
            idle_timeout_seconds: None,
            ttl_seconds: None,
            labels: &BTreeMap::new(),
        };
        if *self == nothing {
            return Ok(None);
        }
        let text = serde_json::to_vec(self).map_err(Error::internal)?;
        Ok(Some(sha256(&text)))
    }
}

fn sha256(data: &[u8]) -> String {
    let hash = Sha256::digest(data);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    /// Of `env`, `network`, `limits` and one file.
    fn hash(
        env: Value,
        network: Value,
        limits: Value,
        file: Option<(&str, u32)>,
    ) -> Option<String> {
        let network: Option<Network> = from_value(network).unwrap();
        let file = file.map(|(data, mode)| WriteRequest {
            path: "a".into(),
            data: data.into(),
            mode,
            ..Default::default()
        });
        let asked = Asked {
            image: None,
            env: &from_value(env).unwrap(),
            network: network.as_ref(),
            limits: &from_value(limits).unwrap(),
            files: file.iter().map(AskedFile::from).collect(),
            idle_timeout_seconds: None,
            ttl_seconds: None,
            labels: &BTreeMap::new(),
        };
        asked.sha256().unwrap()
    }

    #[test]
    fn the_same_has_one_hash_in_any_writing_and_nothing_has_none() {
        assert_eq!(hash(json!({}), json!(null), json!({}), None), None);
        let file = Some(("x", 0o644));
        let one = hash(
            json!({"A": "1", "B": "2"}),
            json!(null),
            json!({"memory": "64m", "cpus": 1}),
            file,
        );
        let same = hash(
            json!({"B": "2", "A": "1"}),
            json!(null),
            json!({"cpus": 1.0, "memory": 67_108_864}),
            file,
        );
        assert!(one.is_some());
        assert_eq!(one, same);
    }

    #[test]
    fn whatever_differs_has_another_hash() {
        let none = || (json!({}), json!(null), json!({}));
        let of =
            |(env, network, limits): (Value, Value, Value), file| hash(env, network, limits, file);
        let mut all = vec![
            of(none(), None),
            of((json!({"A": "1"}), json!(null), json!({})), None),
            of((json!({"A": "2"}), json!(null), json!({})), None),
            // It holds also when the operator's default becomes another.
            of((json!({}), json!("disabled"), json!({})), None),
            of((json!({}), json!("allow_all"), json!({})), None),
            of((json!({}), json!(null), json!({"pids": 20})), None),
            of(none(), Some(("x", 0o644))),
            of(none(), Some(("x", 0o755))),
            of(none(), Some(("y", 0o644))),
        ];
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
