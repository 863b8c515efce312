//! What E2B has and this service has not: refused in plain words, never passed over.

use std::collections::BTreeMap;

use axum::extract::State;
use e2b_wire::NewSandbox;
use http::StatusCode;
use serde_json::Value;

use super::{extract::Id, own};
use crate::{
    caller::Caller,
    error::{Answer, Refusal},
    state::Facade,
};

/// What a new sandbox is asked to have and cannot.
pub(super) fn check(new: &NewSandbox) -> Answer<()> {
    let is_asked = |value: &Option<Value>| value.as_ref().is_some_and(is_something);
    if is_asked(&new.mcp) {
        return Err(Refusal::unsupported("`mcp`, a gateway to MCP servers,"));
    }
    if is_asked(&new.iam) {
        return Err(Refusal::unsupported("`iam`"));
    }
    if new
        .volume_mounts
        .as_ref()
        .is_some_and(|mounts| !mounts.is_empty())
    {
        return Err(Refusal::unsupported("`volumeMounts`"));
    }
    match asked_for(&new.unknown) {
        // A field of a newer SDK may be a promise that somebody relies on.
        Some(field) => Err(Refusal::unsupported(&format!("the field `{field}`"))),
        None => Ok(()),
    }
}

/// A field that is not known and asks for something.
pub(super) fn asked_for(unknown: &BTreeMap<String, Value>) -> Option<&str> {
    let asked = unknown.iter().find(|(_, value)| is_something(value));
    asked.map(|(name, _)| name.as_str())
}

fn is_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => fields.values().any(is_something),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

/// `POST /sandboxes/{id}/fork`.
pub(super) async fn fork(
    caller: Caller,
    State(facade): State<Facade>,
    Id(id): Id,
) -> Answer<StatusCode> {
    own(&facade, &caller, &id)?;
    Err(Refusal::unsupported("a fork of a sandbox"))
}

/// `POST /sandboxes/{id}/snapshots` and `GET /snapshots`.
pub(super) async fn snapshots(_: Caller) -> Refusal {
    Refusal::unsupported("a snapshot")
}

/// `DELETE /templates/{id}`, by which snapshots are deleted.
pub(super) async fn templates(_: Caller) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is no such template of yours")
}

/// `GET /sandboxes/{id}/logs`.
pub(super) async fn logs(
    caller: Caller,
    State(facade): State<Facade>,
    Id(id): Id,
) -> Answer<StatusCode> {
    own(&facade, &caller, &id)?;
    Err(Refusal::unsupported("a log of a sandbox"))
}

/// A path without a route.
pub(super) fn by_path(path: &str) -> Refusal {
    let first = |path: &str| {
        path.split('/')
            .find(|part| !part.is_empty())
            .map(str::to_owned)
    };
    let path = ["/v2", "/v3"]
        .iter()
        .find_map(|version| path.strip_prefix(version))
        .unwrap_or(path);
    match first(path).as_deref() {
        Some("templates") => Refusal::unsupported(
            "building templates: the operator names them in the settings, and this",
        ),
        Some("secrets") => Refusal::unsupported("`/secrets`"),
        Some("volumes") => Refusal::unsupported("`/volumes`"),
        Some("snapshots") => Refusal::unsupported("a snapshot"),
        _ => Refusal::new(StatusCode::NOT_FOUND, "there is no such route"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks_for_nothing_is_harmless() {
        let new = |more: &str| -> NewSandbox {
            serde_json::from_str(&format!(r#"{{"templateID":"base"{more}}}"#)).unwrap()
        };
        for good in [
            "",
            r#","mcp":null,"iam":{"tokens":{}},"volumeMounts":[]"#,
            r#","soon":null,"later":false,"then":{"x":[]}"#,
        ] {
            assert!(check(&new(good)).is_ok(), "{good}");
        }
        for bad in [
            r#","mcp":{"exa":{"key":"k"}}"#,
            r#","iam":{"tokens":{"a":{"audience":"b"}}}"#,
            r#","volumeMounts":[{"name":"a","path":"/b"}]"#,
            r#","soon":true"#,
            r#","soon":{"enabled":true}"#,
        ] {
            assert!(check(&new(bad)).is_err(), "{bad}");
        }
    }
}
