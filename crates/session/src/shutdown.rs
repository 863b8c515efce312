//! The end of the service: its sandboxes end, its sessions stay.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use sandbox_core::SessionKey;
use tracing::{error, info};

use crate::{DestroyReason, outcome::Outcome, session::State, shared::Shared};

/// How long sandboxes may take to end after that.
const END_LIMIT: Duration = Duration::from_secs(40);
const TASKS_LIMIT: Duration = Duration::from_secs(5);

impl Shared {
    pub async fn shutdown(self: &Arc<Self>, grace: Duration) {
        self.table().closing = true;
        // Those who wait for a place learn that none comes.
        self.room.notify_waiters();
        if tokio::time::timeout(grace, self.until_unused())
            .await
            .is_err()
        {
            info!("ending the runs that are under way");
        }
        let endings = join_all(self.begin_stop_all().into_iter().map(Outcome::wait));
        let endings = async { tokio::join!(endings, self.empty_pool()) };
        if tokio::time::timeout(END_LIMIT, endings).await.is_err() {
            error!("some sandboxes did not end in time");
        }
        self.flush().await;
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(TASKS_LIMIT, self.tasks.wait())
            .await
            .is_err()
        {
            error!("some tasks did not end in time");
        }
    }

    async fn until_unused(&self) {
        loop {
            let released = self.released.notified();
            if !self.table().in_use() {
                return;
            }
            released.await;
        }
    }

    fn begin_stop_all(self: &Arc<Self>) -> Vec<Outcome<()>> {
        let mut table = self.table();
        let keys: Vec<SessionKey> = table
            .entries
            .iter()
            .filter(|(_, entry)| !matches!(entry.state, State::Stopped(None)))
            .map(|(key, _)| key.clone())
            .collect();
        keys.iter()
            .filter_map(|key| self.begin_end(&mut table, key, DestroyReason::Shutdown))
            .collect()
    }
}
