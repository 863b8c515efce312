//! What is known of each sandbox: which one of E2B's it is, and its rest.
//!
//! ```text
//! running ── its handle ends ──> resting ── a moment later ──> paused
//!    ^                             │  │                          │  │
//!    └───── made again ────────────┘  └─ removed ─> killed <─────┘  │
//!    └──────────────────────── made again, resumed ─────────────────┘
//! ```
//!
//! What is removed as soon as it has ended, as most are, is never paused.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sandbox_core::SandboxId;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// For a removal to come first.
const MOMENT: Duration = Duration::from_secs(2);

/// One of E2B's sandboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Theirs {
    pub id: String,
    /// Whether it reaches the internet.
    pub internet: bool,
}

/// Of one sandbox of ours: held while something is done to it.
#[derive(Default)]
pub(crate) struct Slot {
    pub theirs: Option<Theirs>,
}

#[derive(Default)]
struct Entry {
    slot: Arc<AsyncMutex<Slot>>,
    rest: CancellationToken,
    /// This service has made it, or taken it over.
    ours: bool,
}

#[derive(Default)]
pub(crate) struct Slots {
    entries: Mutex<HashMap<SandboxId, Entry>>,
    resting: TaskTracker,
    /// The service stops: what rests is paused at once.
    closing: CancellationToken,
}

impl Slots {
    fn entries(&self) -> MutexGuard<'_, HashMap<SandboxId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sandbox, whose rest is over.
    pub async fn take(&self, id: &SandboxId) -> OwnedMutexGuard<Slot> {
        let slot = {
            let mut entries = self.entries();
            let entry = entries.entry(id.clone()).or_default();
            entry.rest.cancel();
            entry.ours = true;
            Arc::clone(&entry.slot)
        };
        slot.lock_owned().await
    }

    /// Which of E2B's it is, without an end to its rest.
    pub async fn theirs(&self, id: &SandboxId) -> Option<Theirs> {
        let slot = Arc::clone(&self.entries().get(id)?.slot);
        slot.lock().await.theirs.clone()
    }

    /// One that is there since before this service; what is known better stays.
    pub fn found(&self, id: SandboxId, theirs: Theirs) {
        let mut entries = self.entries();
        entries.entry(id).or_insert_with(|| Entry {
            slot: Arc::new(AsyncMutex::new(Slot {
                theirs: Some(theirs),
            })),
            ..Entry::default()
        });
    }

    /// Whether it does not run since before this service.
    pub fn is_ours(&self, id: &SandboxId) -> bool {
        self.entries().get(id).is_some_and(|entry| entry.ours)
    }

    /// Does what ends its rest, unless somebody takes it before.
    pub fn rest<F>(
        &self,
        id: &SandboxId,
        pause: impl FnOnce(OwnedMutexGuard<Slot>) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let (slot, rest) = {
            let mut entries = self.entries();
            let entry = entries.entry(id.clone()).or_default();
            entry.rest = CancellationToken::new();
            (Arc::clone(&entry.slot), entry.rest.clone())
        };
        let closing = self.closing.clone();
        self.resting.spawn(async move {
            tokio::select! {
                biased;
                () = rest.cancelled() => return,
                () = closing.cancelled() => {}
                () = tokio::time::sleep(MOMENT) => {}
            }
            let slot = slot.lock_owned().await;
            if !rest.is_cancelled() {
                pause(slot).await;
            }
        });
    }

    /// Its sandbox is no more; *requires* that the caller holds the slot.
    pub fn forget(&self, id: &SandboxId) {
        let mut entries = self.entries();
        // Whoever waits for the slot would have one that nobody else knows.
        let waited_for = |entry: &Entry| Arc::strong_count(&entry.slot) > 2;
        if !entries.get(id).is_some_and(waited_for) {
            entries.remove(id);
        }
    }

    pub async fn close(&self) {
        self.closing.cancel();
        self.resting.close();
        self.resting.wait().await;
    }
}
