//! What waits to be written, bounded by number and by size.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use sandbox_store::AuditRecord;
use tokio::sync::{
    OwnedSemaphorePermit, Semaphore,
    mpsc::{self, UnboundedReceiver, UnboundedSender},
};

/// What of the queue is counted at a time: a semaphore has not enough permits for bytes.
const UNIT_BYTES: usize = 1024;

/// A record and its room in the queue.
pub struct Queued {
    record: AuditRecord,
    room: Room,
}

/// Free for others when this is dropped.
pub type Room = [OwnedSemaphorePermit; 2];

impl Queued {
    pub fn split(self) -> (AuditRecord, Room) {
        (self.record, self.room)
    }
}

pub struct Queue {
    // Bounded by the two semaphores, which also count what the writer has in hand.
    sender: UnboundedSender<Queued>,
    slots: Arc<Semaphore>,
    units: Arc<Semaphore>,
    most_units: u32,
    accepted: AtomicU64,
}

impl Queue {
    pub fn new(records: usize, bytes: usize) -> (Self, UnboundedReceiver<Queued>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let most_units = u32::try_from(bytes / UNIT_BYTES)
            .unwrap_or(u32::MAX)
            .clamp(1, u32::MAX >> 4);
        let queue = Self {
            sender,
            slots: Arc::new(Semaphore::new(records.clamp(1, Semaphore::MAX_PERMITS))),
            units: Arc::new(Semaphore::new(most_units as usize)),
            most_units,
            accepted: AtomicU64::new(0),
        };
        (queue, receiver)
    }

    /// Waits for room, first come, first served. A call that is dropped meanwhile
    /// has taken none. What it takes is gone from `record`; it is left there when
    /// nobody reads any more.
    pub async fn add(&self, record: &mut Option<AuditRecord>) {
        let bytes = record.as_ref().map_or(0, weight);
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES))
            .unwrap_or(u32::MAX)
            // One that is larger than the queue goes through alone.
            .clamp(1, self.most_units);
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        let space = Arc::clone(&self.units).acquire_many_owned(units).await;
        let (Ok(slot), Ok(space), Some(taken)) = (slot, space, record.take()) else {
            return;
        };
        let queued = Queued {
            record: taken,
            room: [slot, space],
        };
        match self.sender.send(queued) {
            Ok(()) => {
                self.accepted.fetch_add(1, Ordering::SeqCst);
            }
            Err(refused) => *record = Some(refused.0.record),
        }
    }

    /// How many were taken since the start.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// About what a record takes in memory and in a statement.
pub fn weight(record: &AuditRecord) -> usize {
    let texts = [
        &record.code,
        &record.path,
        &record.language,
        &record.code_sha256,
        &record.request_id,
    ];
    let texts = texts.into_iter().flatten().map(String::len);
    texts.sum::<usize>() + record.subject.len() + record.outcome.len() + 512
}
