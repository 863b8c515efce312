//! Sandboxes that were here before: a second one with the same id waits for their end.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sandbox_core::SandboxId;
use tokio::{sync::watch, time::timeout};

type Last = BTreeMap<SandboxId, watch::Receiver<bool>>;

/// The last sandbox of each id, and whether it is gone.
pub struct Earlier {
    last: Mutex<Last>,
    limit: Duration,
}

impl Earlier {
    /// `limit` is how long one may take to be gone.
    pub fn new(limit: Duration) -> Self {
        Self {
            last: Mutex::default(),
            limit,
        }
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is(&self, id: &SandboxId, ended: watch::Receiver<bool>) {
        self.last().insert(id.clone(), ended);
    }

    /// False when it has not ended in time.
    pub async fn is_gone(&self, id: &SandboxId) -> bool {
        let earlier = self.last().get(id).cloned();
        let Some(mut ended) = earlier else {
            return true;
        };
        // An error within the time means that its task is gone, and the sandbox with it.
        let gone = timeout(self.limit, ended.wait_for(|ended| *ended))
            .await
            .is_ok();
        if gone {
            self.last().remove(id);
        }
        gone
    }
}
