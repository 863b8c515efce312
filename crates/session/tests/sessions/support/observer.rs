//! Writes down what it is told.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use sandbox_core::SessionKey;
use sandbox_session::{CreatedBy, DestroyReason, Observer};

#[derive(Default)]
pub struct Notes {
    pub created: AtomicUsize,
    pub waited: AtomicUsize,
    pub active: AtomicI64,
    pub pooled: AtomicI64,
    destroyed: Mutex<BTreeMap<&'static str, usize>>,
    sessions: Mutex<Vec<(SessionKey, &'static str)>>,
}

impl Notes {
    /// How many sandboxes were destroyed, by why.
    pub fn destroyed(&self) -> Vec<(&'static str, usize)> {
        let destroyed = self.destroyed.lock().unwrap();
        destroyed.iter().map(|(why, n)| (*why, *n)).collect()
    }

    /// The sessions that began and ended, in order; the latter with why.
    pub fn sessions(&self) -> Vec<(SessionKey, &'static str)> {
        self.sessions.lock().unwrap().clone()
    }
}

#[async_trait]
impl Observer for Notes {
    fn created(&self, backend: &str, _: Duration) {
        assert_eq!(backend, "fake");
        self.created.fetch_add(1, Ordering::SeqCst);
    }

    fn destroyed(&self, _: &str, reason: DestroyReason, _: Duration) {
        let mut destroyed = self.destroyed.lock().unwrap();
        *destroyed.entry(reason.as_str()).or_default() += 1;
    }

    fn waited(&self, _: Duration) {
        self.waited.fetch_add(1, Ordering::SeqCst);
    }

    fn active(&self, _: &str, count: i64) {
        self.active.store(count, Ordering::SeqCst);
    }

    fn pooled(&self, _: &str, count: i64) {
        self.pooled.store(count, Ordering::SeqCst);
    }

    async fn session_began(&self, key: &SessionKey, by: Option<&CreatedBy>) {
        let what = if by.is_some() { "asked for" } else { "began" };
        self.sessions.lock().unwrap().push((key.clone(), what));
    }

    async fn session_ended(&self, key: &SessionKey, reason: DestroyReason) {
        let ended = (key.clone(), reason.as_str());
        self.sessions.lock().unwrap().push(ended);
    }
}
