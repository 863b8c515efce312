//! What is known of contexts beside what the guest knows: where they began.
//!
//! Kept in memory alone: after a restart of the service a context says that it began in
//! the workspace, and is as it was otherwise.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use sandbox_core::SessionKey;

/// How a context was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Begun {
    /// `None`: in the workspace.
    pub cwd: Option<String>,
    /// Runs of ours in it, which nobody asked for.
    pub own_runs: u64,
}

#[derive(Default)]
pub(crate) struct Directories(Mutex<HashMap<SessionKey, BTreeMap<String, Begun>>>);

impl Directories {
    fn table(&self) -> MutexGuard<'_, HashMap<SessionKey, BTreeMap<String, Begun>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn of(&self, key: &SessionKey, context: &str) -> Begun {
        let table = self.table();
        let begun = table.get(key).and_then(|contexts| contexts.get(context));
        begun.cloned().unwrap_or_default()
    }

    pub(super) fn put(&self, key: &SessionKey, context: &str, begun: Begun) {
        let mut table = self.table();
        let contexts = table.entry(key.clone()).or_default();
        contexts.insert(context.to_owned(), begun);
    }

    /// Forgets contexts that are gone.
    pub(super) fn keep(&self, key: &SessionKey, contexts: &[&str]) {
        if let Some(known) = self.table().get_mut(key) {
            known.retain(|name, _| contexts.contains(&name.as_str()));
        }
    }

    pub(crate) fn forget(&self, key: &SessionKey) {
        self.table().remove(key);
    }

    /// Forgets the contexts of sandboxes that are gone.
    pub(super) fn forget_unless(&self, is_there: impl Fn(&SessionKey) -> bool) {
        self.table().retain(|key, _| is_there(key));
    }
}
