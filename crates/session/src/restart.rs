//! What an earlier service has left: sessions go on, and what belongs to none goes.

use std::{collections::BTreeSet, sync::Arc};

use sandbox_core::{Result, SandboxId};
use sandbox_store::SessionRecord;
use tracing::{info, warn};

use crate::{
    deadline::{self, chain, within},
    session::{Session, State, Terms},
    shared::Shared,
    table::Entry,
};

impl Shared {
    /// *Requires*: no other service uses this registry and these workspaces.
    pub async fn restore(self: &Arc<Self>) -> Result<()> {
        let records = within(deadline::STORE, "the registry", self.store.load()).await?;
        let list = within(
            deadline::LIST,
            "the list of workspaces",
            self.backend.list(),
        )
        .await?;
        let mut orphans: BTreeSet<SandboxId> = list.into_iter().collect();
        let ours = |record: &SessionRecord| record.backend == self.backend_name();
        for record in records.into_iter().filter(ours) {
            if orphans.remove(&record.key.sandbox_id()) {
                self.insert_stopped(record);
            } else {
                self.forget(record).await;
            }
        }
        let (kept, removed) = (self.table().entries.len(), orphans.len());
        for orphan in orphans {
            self.remove_orphan_workspace(&orphan).await;
        }
        self.evict_surplus();
        info!(
            backend = self.backend_name(),
            "found {kept} sessions and {removed} workspaces of none"
        );
        Ok(())
    }

    fn insert_stopped(&self, record: SessionRecord) {
        let key = record.key;
        let terms = Terms {
            key: key.clone(),
            spec: record.spec,
            options: record.options,
            created_at: record.created_at,
            idle_timeout: record.idle_timeout,
            expires_at: record.expires_at,
            ephemeral: false,
        };
        let session = Session::new(terms, record.last_used_at, self.settings.runs_per_session);
        let entry = Entry {
            session: Arc::new(session),
            state: State::Stopped(None),
        };
        self.table().entries.insert(key, entry);
    }

    /// Without its workspace it would be another session under the old name.
    async fn forget(&self, record: SessionRecord) {
        let remove = self.store.remove(&record.key);
        if let Err(error) = within(deadline::STORE, "the registry", remove).await {
            warn!(
                session.tenant = %record.key.tenant, session.id = %record.key.session,
                "failed to forget a session: {}", chain(&error)
            );
        }
    }
}
