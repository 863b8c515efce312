//! A registry that fails when it is told to, and counts.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use sandbox_core::{Error, Result, SessionKey, Timestamp};
use sandbox_store::{SessionRecord, SessionStore, SqliteStore};

pub struct FakeStore {
    inner: SqliteStore,
    pub broken: AtomicBool,
    pub calls: AtomicUsize,
}

impl FakeStore {
    pub async fn new() -> Self {
        Self {
            inner: SqliteStore::in_memory().await.unwrap(),
            broken: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
        }
    }

    fn call(&self) -> Result<&SqliteStore> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.broken.load(Ordering::SeqCst) {
            return Err(Error::internal("the disk is full"));
        }
        Ok(&self.inner)
    }
}

#[async_trait]
impl SessionStore for FakeStore {
    async fn load(&self) -> Result<Vec<SessionRecord>> {
        self.call()?.load().await
    }

    async fn put(&self, record: &SessionRecord) -> Result<()> {
        self.call()?.put(record).await
    }

    async fn touch(&self, used: &[(SessionKey, Timestamp)]) -> Result<()> {
        self.call()?.touch(used).await
    }

    async fn remove(&self, key: &SessionKey) -> Result<()> {
        self.call()?.remove(key).await
    }

    async fn ping(&self) -> Result<()> {
        self.call()?.ping().await
    }
}
