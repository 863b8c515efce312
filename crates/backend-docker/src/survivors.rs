//! Containers that have outlived the service that made them.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bollard::{
    Docker,
    models::{ContainerSummary, ContainerSummaryStateEnum},
    query_parameters::ListContainersOptions,
};
use sandbox_core::{Result, SandboxId};
use tokio::sync::OnceCell;

use crate::{
    error::failed,
    names::{GUEST, Names, SANDBOX, SHAPE},
    place,
};

/// A container that runs, of a service that was killed.
#[derive(Clone, Debug)]
pub(crate) struct Survivor {
    pub container: String,
    pub shape: String,
}

#[derive(Default)]
pub(crate) struct Survivors {
    known: Mutex<HashMap<SandboxId, Survivor>>,
    /// Looked for once, before this service has any container of its own.
    found: OnceCell<()>,
}

impl Survivors {
    fn known(&self) -> MutexGuard<'_, HashMap<SandboxId, Survivor>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self, id: &SandboxId) -> Option<Survivor> {
        self.known().remove(id)
    }

    pub fn ids(&self) -> Vec<SandboxId> {
        self.known().keys().cloned().collect()
    }

    /// Looks for them, and removes what cannot be taken over: what has stopped, and
    /// what runs a guest that this service does not know.
    pub async fn find_once(&self, docker: &Docker, names: &Names, guest: &str) -> Result<()> {
        let find = || self.find(docker, names, guest);
        self.found.get_or_try_init(find).await.copied()
    }

    async fn find(&self, docker: &Docker, names: &Names, guest: &str) -> Result<()> {
        for kind in ["sandbox", "helper"] {
            let options = ListContainersOptions {
                all: true,
                filters: Some(names.filter(kind)),
                ..Default::default()
            };
            let found = docker
                .list_containers(Some(options))
                .await
                .map_err(|error| failed("list its containers", error))?;
            for found in found {
                let Some(container) = found.id.clone() else {
                    continue;
                };
                match survivor(found, &container, guest) {
                    Some((id, survivor)) => {
                        self.known().insert(id, survivor);
                    }
                    None => place::remove(docker, &container).await,
                }
            }
        }
        Ok(())
    }
}

fn survivor(
    found: ContainerSummary,
    container: &str,
    guest: &str,
) -> Option<(SandboxId, Survivor)> {
    let mut labels = found.labels?;
    let usable = found.state == Some(ContainerSummaryStateEnum::RUNNING)
        && labels.get(GUEST).is_some_and(|found| found == guest);
    if !usable {
        return None;
    }
    let survivor = Survivor {
        container: container.to_owned(),
        shape: labels.remove(SHAPE)?,
    };
    Some((labels.remove(SANDBOX)?.parse().ok()?, survivor))
}
