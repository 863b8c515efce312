//! What an earlier service has left: sessions go on, and what belongs to none goes.

use std::{collections::BTreeSet, sync::Arc};

use sandbox_core::{ErrorCode, Result, SandboxId, SessionKey, chain};
use sandbox_store::SessionRecord;
use tracing::{info, warn};

use crate::{
    DestroyReason,
    acquire::Found,
    deadline::{self, within},
    entries::Entry,
    new::Wanted,
    session::{Session, State, Terms, Times},
    shared::Shared,
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
        let running: BTreeSet<SandboxId> = list
            .iter()
            .filter(|found| found.running)
            .map(|found| found.id.clone())
            .collect();
        let mut orphans: BTreeSet<SandboxId> = list.into_iter().map(|found| found.id).collect();
        let mut taken_up = Vec::new();
        let ours = |record: &SessionRecord| record.backend == self.backend_name();
        for record in records.into_iter().filter(ours) {
            if orphans.remove(&record.sandbox_id) {
                if running.contains(&record.sandbox_id) {
                    taken_up.push(record.key.clone());
                }
                self.insert_stopped(record);
            } else {
                self.forget(record).await;
            }
        }
        let (kept, removed) = (self.table().entries.len(), orphans.len());
        for orphan in orphans {
            self.remove_orphan_workspace(&orphan).await;
        }
        for key in taken_up {
            self.take_up(&key);
        }
        self.evict_surplus();
        info!(
            backend = self.backend_name(),
            "found {kept} sessions and {removed} workspaces of none"
        );
        Ok(())
    }

    /// Its sandbox has outlived the service before: it is in use again at once, so
    /// that it counts, and is watched.
    fn take_up(self: &Arc<Self>, key: &SessionKey) {
        let now = self.clock.now();
        let mut table = self.table();
        match self.begin_start(&mut table, key, Wanted::AsUsual, now) {
            Ok(Found::Starting { .. }) => {}
            // The operator has taken back what it needs: its files wait for better times.
            Err(error) if error.code() == ErrorCode::Unsupported => {
                let id = table
                    .entries
                    .get(key)
                    .map(|it| it.session.sandbox_id().clone());
                self.spawn(Arc::clone(self).end_survivor(id));
            }
            _ => {
                self.begin_end(&mut table, key, DestroyReason::Evicted);
            }
        }
    }

    async fn end_survivor(self: Arc<Self>, id: Option<SandboxId>) {
        let Some(id) = id else { return };
        let end = self.backend.end(&id);
        if let Err(error) = within(deadline::STOP, "the end of the sandbox", end).await {
            warn!(sandbox.id = %id, "failed to end a sandbox: {}", chain(&error));
        }
    }

    fn insert_stopped(&self, record: SessionRecord) {
        let terms = Terms {
            key: record.key,
            sandbox_id: record.sandbox_id,
            spec: record.spec,
            options: record.options,
            created_at: record.created_at,
            idle_timeout: record.idle_timeout,
            ephemeral: false,
        };
        let times = Times {
            ends: record.expires_at,
            paused_at: record.paused_at,
        };
        let turns = self.settings.runs_per_session;
        let session = Session::new(terms, times, record.last_used_at, turns);
        let entry = Entry {
            session: Arc::new(session),
            state: State::Stopped(None),
        };
        self.table().entries.insert(entry);
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
