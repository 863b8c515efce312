//! A store in memory whose answers a test chooses.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sandbox_core::{Error, ErrorCode, ExecutionId, Result, TenantId, Timestamp};
use sandbox_store::{AuditFilter, AuditRecord, AuditStore, ExecutionStore};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mood {
    Up,
    Down,
    /// Takes records and says that it did not.
    AnswerLost,
    /// Does not answer until the mood changes.
    Hung,
    Panics,
}

pub struct FakeStore {
    mood: watch::Sender<Mood>,
    kept: watch::Sender<Vec<AuditRecord>>,
    /// How many calls there were, and how many records the largest had.
    pub calls: Mutex<Vec<usize>>,
    pub forgotten: Mutex<Vec<(Timestamp, usize)>>,
    pub freed: Mutex<Vec<Timestamp>>,
}

impl FakeStore {
    pub fn new(mood: Mood) -> Arc<Self> {
        Arc::new(Self {
            mood: watch::Sender::new(mood),
            kept: watch::Sender::new(Vec::new()),
            calls: Mutex::default(),
            forgotten: Mutex::default(),
            freed: Mutex::default(),
        })
    }

    pub fn set(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    pub fn kept(&self) -> Vec<AuditRecord> {
        self.kept.borrow().clone()
    }

    pub fn keep(&self, records: &[AuditRecord]) {
        self.kept.send_modify(|kept| {
            for record in records {
                if kept.iter().all(|known| known.id != record.id) {
                    kept.push(record.clone());
                }
            }
        });
    }

    /// Waits until there was this number of calls to `append`.
    pub async fn called(&self, calls: usize) {
        while self.calls.lock().unwrap().len() < calls {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

#[async_trait]
impl AuditStore for FakeStore {
    async fn append(&self, records: &[AuditRecord]) -> Result<()> {
        self.calls.lock().unwrap().push(records.len());
        let mut moods = self.mood.subscribe();
        let mood = *moods.wait_for(|mood| *mood != Mood::Hung).await.unwrap();
        if matches!(mood, Mood::Up | Mood::AnswerLost) {
            self.keep(records);
        }
        match mood {
            Mood::Up => Ok(()),
            Mood::Panics => panic!("as the test wants it"),
            _ => Err(Error::new(ErrorCode::Timeout, "down")),
        }
    }

    async fn newest(&self, _: &AuditFilter, _: Option<&str>, _: usize) -> Result<Vec<AuditRecord>> {
        unreachable!("the queue does not read")
    }

    async fn oldest(&self, _: &AuditFilter, _: Option<&str>, _: usize) -> Result<Vec<AuditRecord>> {
        unreachable!("the queue does not read")
    }

    async fn forget(&self, before: Timestamp, limit: usize) -> Result<u64> {
        self.forgotten.lock().unwrap().push((before, limit));
        let mut gone = 0;
        self.kept.send_modify(|kept| {
            kept.retain(|record| {
                let stays = record.at >= before || gone == limit as u64;
                gone += u64::from(!stays);
                stays
            });
        });
        Ok(gone)
    }
}

#[async_trait]
impl ExecutionStore for FakeStore {
    async fn claim(
        &self,
        _: &TenantId,
        _: &ExecutionId,
        _: &str,
        _: Timestamp,
    ) -> Result<Option<String>> {
        unreachable!("the queue does not claim")
    }

    async fn release(&self, _: &TenantId, _: &ExecutionId) -> Result<()> {
        unreachable!("the queue does not claim")
    }

    async fn forget_claims(&self, before: Timestamp) -> Result<u64> {
        self.freed.lock().unwrap().push(before);
        Ok(0)
    }
}
