//! What the manager, its leases and its tasks have in common.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sandbox_backend::Backend;
use sandbox_core::{Clock, SandboxId};
use sandbox_store::SessionStore;
use tokio::{runtime::Handle, sync::Notify};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Observer, SessionSettings, table::Table};

pub(crate) struct Shared {
    pub settings: SessionSettings,
    pub backend: Arc<dyn Backend>,
    pub store: Arc<dyn SessionStore>,
    pub clock: Arc<dyn Clock>,
    pub observer: Arc<dyn Observer>,
    /// Not tokio's: it is never held over a wait.
    table: Mutex<Table>,
    /// Workspaces without a session that could not be removed yet.
    pub orphans: Mutex<HashSet<SandboxId>>,
    /// Told when a sandbox gives its place up.
    pub room: Notify,
    /// Told when the pool may want another sandbox.
    pub pool_taken: Notify,
    /// Told when a lease ends.
    pub released: Notify,
    pub tasks: TaskTracker,
    /// Ends the background tasks.
    pub stop: CancellationToken,
    runtime: Handle,
}

impl Shared {
    pub fn new(
        settings: SessionSettings,
        backend: Arc<dyn Backend>,
        store: Arc<dyn SessionStore>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            settings,
            backend,
            store,
            clock,
            observer,
            table: Mutex::default(),
            orphans: Mutex::default(),
            room: Notify::new(),
            pool_taken: Notify::new(),
            released: Notify::new(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            runtime: Handle::current(),
        }
    }

    pub fn table(&self) -> MutexGuard<'_, Table> {
        // Each change of the table is complete before anything can panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task that shutdown waits for; also from where no runtime is, as in `Drop`.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.runtime);
    }

    pub fn backend_name(&self) -> &'static str {
        self.backend.name()
    }

    /// Tells how many sandboxes live, under the lock so that the last word is true.
    pub fn observe_active(&self, table: &Table) {
        let count = i64::try_from(table.running()).unwrap_or(i64::MAX);
        self.observer.active(self.backend_name(), count);
    }
}
