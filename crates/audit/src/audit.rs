//! What the rest of the service sees of the audit trail.

use std::{sync::Arc, time::Duration};

use sandbox_core::{Clock, Timestamp};
use sandbox_store::{AuditRecord, AuditStore, ExecutionStore};
use tokio::{
    sync::watch,
    task::{AbortHandle, spawn_blocking},
    time::{Instant, timeout},
};
use tracing::error;

use crate::{
    AuditSettings, id::Ids, queue::Queue, retention::keep_forgetting, spool::Spool, stop::Stop,
    writer::Writer,
};

/// How long the disk may take for what the store did not.
const SPOOL_LIMIT: Duration = Duration::from_secs(5);

/// What is written and swept.
pub trait Trail: AuditStore + ExecutionStore {}

impl<T: AuditStore + ExecutionStore + ?Sized> Trail for T {}

/// The audit trail; clones are of the same one.
///
/// When the last is dropped without [`Audit::shutdown`], what is queued goes to
/// the spool.
#[derive(Clone)]
pub struct Audit {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Queue,
    spool: Arc<Spool>,
    ids: Ids,
    clock: Arc<dyn Clock>,
    written: watch::Receiver<u64>,
    stop: watch::Sender<Option<Instant>>,
    stopped: Stop,
    sweeper: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.sweeper.abort();
    }
}

impl Audit {
    /// Starts the writer, which first writes what earlier starts had to leave.
    pub fn start<S: Trail + ?Sized + 'static>(
        store: Arc<S>,
        clock: Arc<dyn Clock>,
        settings: AuditSettings,
    ) -> Self {
        let (queue, receiver) = Queue::new(settings.queue, settings.queue_bytes);
        let spool = Arc::new(Spool::new(settings.spool.clone()));
        let (stop, stopped) = Stop::channel();
        let (count, written) = watch::channel(0);
        let writer = Writer {
            store: Arc::clone(&store),
            queue: receiver,
            written: count,
            stop: stopped.clone(),
            spool: Arc::clone(&spool),
        };
        // Ends by itself when the handles are gone: what is queued is to be kept.
        tokio::spawn(writer.run());
        let sweep = keep_forgetting(store, Arc::clone(&clock), settings);
        let sweeper = tokio::spawn(sweep).abort_handle();
        Self {
            inner: Arc::new(Inner {
                queue,
                spool,
                ids: Ids::default(),
                clock,
                written,
                stop,
                stopped,
                sweeper,
            }),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// An id for a record: a UUID of version 7, larger than those made before.
    pub fn new_id(&self) -> String {
        self.inner.ids.next(self.inner.clock.now())
    }

    /// Queues a record; waits while the queue is full. A call that is dropped
    /// while it waits has recorded nothing: one whose record matters whatever
    /// becomes of its client must not be its client's.
    ///
    /// From [`Audit::shutdown`] on records go to the spool.
    pub async fn record(&self, record: AuditRecord) {
        let inner = &self.inner;
        let mut stopped = inner.stopped.clone();
        let mut record = Some(record);
        tokio::select! {
            biased;
            _ = stopped.told() => {}
            () = inner.queue.add(&mut record) => {}
        }
        let Some(late) = record else { return };
        let spool = Arc::clone(&inner.spool);
        if spawn_blocking(move || spool.keep(vec![late]))
            .await
            .is_err()
        {
            error!("an audit record could not be kept");
        }
    }

    /// How many records wait to be written.
    pub fn depth(&self) -> usize {
        let accepted = self.inner.queue.accepted();
        let written = *self.inner.written.borrow();
        usize::try_from(accepted.saturating_sub(written)).unwrap_or(usize::MAX)
    }

    /// Waits until all that was recorded before is written; else how many are left.
    pub async fn flush(&self, limit: Duration) -> Result<(), usize> {
        let accepted = self.inner.queue.accepted();
        let mut written = self.inner.written.clone();
        let wait = written.wait_for(|written| *written >= accepted);
        if matches!(timeout(limit, wait).await, Ok(Ok(_))) {
            return Ok(());
        }
        let left = accepted.saturating_sub(*self.inner.written.borrow());
        if left == 0 {
            return Ok(());
        }
        Err(usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// Takes no more, writes what is queued, and keeps in the spool what the
    /// store does not take within `limit`.
    pub async fn shutdown(&self, limit: Duration) {
        self.inner.sweeper.abort();
        self.inner.stop.send_if_modified(|deadline| {
            let first = deadline.is_none();
            deadline.get_or_insert(Instant::now() + limit);
            first
        });
        // The writer has the other end, and drops it when it is done.
        let mut written = self.inner.written.clone();
        let ended = written.wait_for(|_| false);
        if timeout(limit + SPOOL_LIMIT, ended).await.is_err() {
            error!(
                audit.records = self.depth(),
                "audit records could not be kept in time"
            );
        }
    }
}
