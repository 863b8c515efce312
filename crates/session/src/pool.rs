//! Sandboxes that are started before anybody wants them.
//!
//! They count in the ceiling of sandboxes, and give their places up to sessions.

use std::sync::Arc;

use sandbox_backend::Place;
use sandbox_core::{SandboxId, SandboxSpec, chain};
use tracing::warn;

use crate::{
    deadline::{self, within},
    shared::Shared,
    table::Table,
};

pub(crate) struct Pooled {
    pub id: SandboxId,
    pub place: Arc<dyn Place>,
}

/// Used only under the table's lock.
#[derive(Default)]
pub(crate) struct Pool {
    ready: Vec<Pooled>,
    /// Are being started.
    coming: usize,
}

impl Pooled {
    fn is_alive(&self) -> bool {
        !self.place.guest().is_closed()
    }
}

impl Pool {
    /// What it takes of the ceiling.
    pub fn places(&self) -> usize {
        self.ready.len() + self.coming
    }

    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// One that can be what the spec says; it is nobody else's from then on.
    pub fn take(&mut self, spec: &SandboxSpec) -> Option<Pooled> {
        let suits = |pooled: &Pooled| pooled.is_alive() && pooled.place.suits(spec);
        let found = self.ready.iter().position(suits)?;
        // The oldest first: the others keep their order.
        Some(self.ready.remove(found))
    }

    /// One that makes room for a sandbox of another kind.
    pub fn give_up(&mut self) -> Option<Pooled> {
        self.ready.pop()
    }

    fn take_dead(&mut self) -> Vec<Pooled> {
        self.ready
            .extract_if(.., |pooled| !pooled.is_alive())
            .collect()
    }
}

impl Shared {
    /// Starts sandboxes, one after the other, until there are enough.
    pub async fn fill_pool(&self) {
        let dead = self.table().pool.take_dead();
        for pooled in dead {
            self.discard(pooled).await;
        }
        while self.reserve_for_pool() {
            let id = SandboxId::generate();
            let create = self.backend.create(&id, &self.settings.spec);
            let made = within(deadline::CREATE, "the start of a sandbox", create).await;
            let mut surplus = None;
            let failed = match made {
                Ok(place) => {
                    let pooled = Pooled { id, place };
                    let mut table = self.table();
                    table.pool.coming -= 1;
                    match table.closing {
                        true => surplus = Some(pooled),
                        false => table.pool.ready.push(pooled),
                    }
                    self.observe_pool(&table);
                    false
                }
                Err(error) => {
                    self.table().pool.coming -= 1;
                    warn!("failed to start a sandbox for the pool: {}", chain(&error));
                    self.remove_orphan_workspace(&id).await;
                    true
                }
            };
            self.room.notify_waiters();
            if let Some(pooled) = surplus {
                self.discard(pooled).await;
            }
            if failed {
                return;
            }
        }
    }

    fn reserve_for_pool(&self) -> bool {
        let settings = &self.settings;
        let mut table = self.table();
        let places = table.pool.places();
        let wanted = !table.closing
            && places < settings.pool_size
            && table.occupying() + places < settings.max_sessions;
        if wanted {
            table.pool.coming += 1;
        }
        wanted
    }

    /// Nobody has used it: nothing of it is kept.
    pub async fn discard(&self, pooled: Pooled) {
        let stop = pooled.place.stop();
        if let Err(error) = within(deadline::STOP, "the end of a sandbox", stop).await {
            warn!("failed to end a sandbox of the pool: {}", chain(&error));
        }
        self.remove_orphan_workspace(&pooled.id).await;
    }

    /// *Requires*: the table is closing.
    pub async fn empty_pool(&self) {
        let all = {
            let mut table = self.table();
            let all = std::mem::take(&mut table.pool.ready);
            self.observe_pool(&table);
            all
        };
        futures::future::join_all(all.into_iter().map(|pooled| self.discard(pooled))).await;
    }

    pub fn observe_pool(&self, table: &Table) {
        let ready = i64::try_from(table.pool.ready()).unwrap_or(i64::MAX);
        self.observer.pooled(self.backend_name(), ready);
    }
}
