//! What is done in the background: ending what has expired, writing what was used.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use sandbox_core::{SandboxId, chain};
use tokio::time::MissedTickBehavior;
use tracing::warn;

use crate::{
    deadline::{self, within},
    outcome::Outcome,
    session::Session,
    shared::Shared,
};

/// How old the times in the registry may be.
const FLUSH_INTERVAL: Duration = Duration::from_secs(5);

impl Shared {
    /// Ends every session whose time is up, and waits for their end.
    pub async fn reap(self: &Arc<Self>) {
        join_all(self.pauses()).await;
        let endings = self.begin_reap();
        join_all(endings.into_iter().map(Outcome::wait)).await;
        self.remove_orphans().await;
    }

    /// The pauses of sessions that are kept when their time is up.
    fn pauses(self: &Arc<Self>) -> Vec<impl Future<Output = ()> + Send + use<>> {
        let due = self.table().to_pause(self.clock.now());
        due.into_iter()
            .map(|key| Arc::clone(self).pause_at_end(key))
            .collect()
    }

    fn begin_reap(self: &Arc<Self>) -> Vec<Outcome<()>> {
        let now = self.clock.now();
        let mut table = self.table();
        let expired = table.expired(now);
        expired
            .into_iter()
            .filter_map(|(key, reason)| self.begin_end(&mut table, &key, reason))
            .collect()
    }

    async fn remove_orphans(&self) {
        let orphans: Vec<SandboxId> = {
            let orphans = self.orphans.lock();
            let orphans = orphans.unwrap_or_else(PoisonError::into_inner);
            orphans.iter().cloned().collect()
        };
        for id in orphans {
            // A session that has come to life since then owns the name.
            if self.is_known(&id) {
                continue;
            }
            self.remove_orphan_workspace(&id).await;
        }
    }

    fn is_known(&self, id: &SandboxId) -> bool {
        let table = self.table();
        table
            .entries
            .values()
            .any(|entry| entry.session.sandbox_id() == id)
    }

    /// Removes a workspace that no session has, now or at a later pass.
    pub async fn remove_orphan_workspace(&self, id: &SandboxId) {
        let remove = self.backend.remove(id);
        let removed = within(deadline::REMOVE, "the removal of a workspace", remove).await;
        let orphans = self.orphans.lock();
        let mut orphans = orphans.unwrap_or_else(PoisonError::into_inner);
        match removed {
            Ok(()) => {
                orphans.remove(id);
            }
            Err(error) => {
                warn!(sandbox.id = %id, "failed to remove a workspace: {}", chain(&error));
                orphans.insert(id.clone());
            }
        }
    }

    /// Writes when sessions were last used.
    pub async fn flush(&self) {
        let now = self.clock.now();
        let sessions: Vec<Arc<Session>> = {
            let table = self.table();
            let entries = table.entries.values();
            entries.map(|entry| Arc::clone(&entry.session)).collect()
        };
        let (touched, used): (Vec<_>, Vec<_>) = sessions
            .into_iter()
            .filter_map(|session| {
                let used = (session.key().clone(), session.take_touched(now)?);
                Some((session, used))
            })
            .unzip();
        if used.is_empty() {
            return;
        }
        if let Err(error) = within(deadline::STORE, "the registry", self.store.touch(&used)).await {
            warn!("failed to write when sessions were used: {}", chain(&error));
            touched.iter().for_each(|session| session.keep_touched());
        }
    }

    pub fn start_background(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        self.spawn(async move {
            let mut ticks = ticks(shared.settings.reap_interval);
            while shared.next(&mut ticks).await {
                for pause in shared.pauses() {
                    shared.spawn(pause);
                }
                shared.begin_reap();
                shared.remove_orphans().await;
            }
        });
        if self.settings.pool_size > 0 {
            let shared = Arc::clone(self);
            self.spawn(async move {
                let mut ticks = ticks(shared.settings.reap_interval);
                loop {
                    shared.fill_pool().await;
                    tokio::select! {
                        biased;
                        () = shared.stop.cancelled() => return,
                        () = shared.pool_taken.notified() => {}
                        _ = ticks.tick() => {}
                    }
                }
            });
        }
        let shared = Arc::clone(self);
        self.spawn(async move {
            let mut ticks = ticks(FLUSH_INTERVAL);
            while shared.next(&mut ticks).await {
                shared.flush().await;
            }
        });
    }

    /// False when the service stops.
    async fn next(&self, ticks: &mut tokio::time::Interval) -> bool {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            _ = ticks.tick() => true,
        }
    }
}

fn ticks(interval: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(10)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
