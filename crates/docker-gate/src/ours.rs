//! Whose a container or a volume is.
//!
//! What comes is a name or an id; what is sent on is always the id of a container
//! that was looked at, so that no other can take the name in between. Labels and
//! entrypoint of a container never change, so one look is enough.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use http::StatusCode;
use serde_json::{Map, Value};

use crate::{
    body::{self, Role},
    names,
    refusal::{Refusal, Result, quoted},
    upstream::Upstream,
};

/// More are forgotten, and looked at again.
const MAX_KNOWN: usize = 8192;

#[derive(Default)]
pub struct Ours {
    /// Containers of ours by their ids.
    known: Mutex<HashMap<String, Role>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub id: String,
    pub role: Role,
}

impl Ours {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Role>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, id: &str, role: Role) {
        if !names::is_id(id) {
            return;
        }
        let mut known = self.known();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(id.to_owned(), role);
    }

    pub fn forget(&self, id: &str) {
        self.known().remove(id);
    }

    /// The container of ours that is called so.
    pub async fn container(&self, upstream: &Upstream, reference: &str) -> Result<Found> {
        let known = self.known().get(reference).copied();
        if let Some(role) = known {
            let id = reference.to_owned();
            return Ok(Found { id, role });
        }
        let answer = upstream
            .get(&format!("/containers/{reference}/json"))
            .await?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => {
                return Err(Refusal::new(StatusCode::NOT_FOUND, answer.message()));
            }
            _ => {
                return Err(Refusal::upstream(
                    "the Docker daemon does not show the container",
                ));
            }
        }
        let found = of_ours(&answer.json()?).ok_or_else(|| {
            Refusal::forbidden(format!(
                "the container {} is not one of the service's",
                quoted(reference)
            ))
        })?;
        self.add(&found.id, found.role);
        Ok(found)
    }

    /// Checks that a volume of ours is there.
    pub async fn volume(&self, upstream: &Upstream, name: &str) -> Result<()> {
        let answer = upstream.get(&format!("/volumes/{name}")).await?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => {
                return Err(Refusal::new(StatusCode::NOT_FOUND, answer.message()));
            }
            _ => {
                return Err(Refusal::upstream(
                    "the Docker daemon does not show the volume",
                ));
            }
        }
        let volume = answer.json()?;
        if volume["Name"] == name && body::is_plain_volume(&volume) {
            return Ok(());
        }
        Err(Refusal::forbidden(format!(
            "the volume {} is not one of the service's",
            quoted(name)
        )))
    }
}

fn of_ours(container: &Value) -> Option<Found> {
    let name = container["Name"].as_str()?.strip_prefix('/')?;
    let id = container["Id"].as_str()?;
    let none = Map::new();
    let labels = container["Config"]["Labels"].as_object().unwrap_or(&none);
    let entrypoint = container["Config"]["Entrypoint"].as_array()?;
    let entrypoint: Vec<String> = entrypoint
        .iter()
        .map(|word| word.as_str().map(str::to_owned))
        .collect::<Option<_>>()?;
    let role = Role::of(&entrypoint)?;
    (names::is_ours(name) && names::is_id(id) && names::has_own(labels)).then(|| Found {
        id: id.to_owned(),
        role,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_container_is_ours_by_name_label_and_entrypoint_together() {
        let id = "0f".repeat(32);
        let ours = json!({
            "Id": id, "Name": "/sandboxd-a",
            "Config": {"Labels": {"dev.sandboxd.kind": "sandbox"}, "Entrypoint": ["/.sandbox/guest"]},
        });
        let role = Role::Sandbox;
        assert_eq!(of_ours(&ours), Some(Found { id, role }));
        for (pointer, value) in [
            ("/Name", json!("/postgres")),
            ("/Name", json!("sandboxd-a")),
            ("/Name", json!(null)),
            ("/Id", json!("0f")),
            ("/Config/Labels", json!(null)),
            ("/Config/Labels", json!({"dev.sandboxd.sandbox": "a"})),
            ("/Config/Entrypoint", json!(["/bin/sh"])),
            ("/Config/Entrypoint", json!(null)),
        ] {
            let mut other = ours.clone();
            *other.pointer_mut(pointer).unwrap() = value.clone();
            assert_eq!(of_ours(&other), None, "{pointer} {value}");
        }
    }
}
