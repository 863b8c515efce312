//! What all services know of their sandbox.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::{envd::Envd, process::Marks};

/// Archives under way at a time; each has a thread of its own.
const ARCHIVES: usize = 4;

pub(crate) struct State {
    pub envd: Envd,
    pub workspace: PathBuf,
    pub archives: Arc<Semaphore>,
    /// Of processes that were started to go on.
    pub marks: Marks,
    env: RwLock<BTreeMap<String, String>>,
}

impl State {
    pub fn new(envd: Envd, workspace: PathBuf) -> Self {
        Self {
            envd,
            workspace,
            archives: Arc::new(Semaphore::new(ARCHIVES)),
            marks: Marks::default(),
            env: RwLock::default(),
        }
    }

    /// What every program is given beside what envd gives it.
    pub fn env(&self) -> BTreeMap<String, String> {
        let env = self.env.read().unwrap_or_else(PoisonError::into_inner);
        env.clone()
    }

    pub fn add_env(&self, added: BTreeMap<String, String>) {
        let mut env = self.env.write().unwrap_or_else(PoisonError::into_inner);
        env.extend(added);
    }
}

/// A name that nothing else has.
pub(crate) fn random() -> String {
    Uuid::new_v4().simple().to_string()
}
