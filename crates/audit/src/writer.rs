//! Takes records from the queue to the store.

use std::{panic::AssertUnwindSafe, path::PathBuf, sync::Arc, time::Duration};

use futures::FutureExt as _;
use sandbox_core::{Error, ErrorCode};
use sandbox_store::AuditRecord;
use tokio::{
    sync::{mpsc::UnboundedReceiver, watch},
    task::spawn_blocking,
    time::{sleep, timeout},
};
use tracing::{error, info, warn};

use crate::{
    audit::Trail,
    queue::{Queued, weight},
    spool::{self, Spool},
    stop::Stop,
};

/// Records of one call of the store, and about how large they may be together.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// A store has deadlines of its own; this is for one that forgets them.
const APPEND_LIMIT: Duration = Duration::from_secs(30);
/// Between two tries; the second is twice as long, and so on.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The time to stop was up before the store took the records.
struct TimeUp;

pub struct Writer<S: ?Sized> {
    pub store: Arc<S>,
    pub queue: UnboundedReceiver<Queued>,
    /// How many records are in the store since the start, or in the spool.
    pub written: watch::Sender<u64>,
    pub stop: Stop,
    pub spool: Arc<Spool>,
}

impl<S: Trail + ?Sized> Writer<S> {
    /// Runs until it is told to stop and has written what was queued.
    pub async fn run(mut self) {
        // What is left of earlier starts is older than all that comes.
        let mut in_time = self.read_back().await.is_ok();
        let mut batch = Vec::new();
        let mut stopping = false;
        loop {
            let mut stop = self.stop.clone();
            let taken = tokio::select! {
                biased;
                taken = self.queue.recv_many(&mut batch, BATCH) => taken,
                _ = stop.told(), if !stopping => {
                    // What was taken before is still to be had from it.
                    self.queue.close();
                    stopping = true;
                    continue;
                }
            };
            if taken == 0 {
                return;
            }
            // Whose room in the queue is free when they are written.
            let (records, _room): (Vec<_>, Vec<_>) = batch.drain(..).map(Queued::split).unzip();
            let mut left = records.as_slice();
            while in_time && !left.is_empty() {
                let (part, rest) = left.split_at(part(left));
                in_time = self.append(part).await.is_ok();
                if in_time {
                    self.count(part.len());
                    left = rest;
                }
            }
            if !left.is_empty() {
                let (spool, left) = (Arc::clone(&self.spool), left.to_vec());
                let count = left.len();
                // It does not panic, and nobody else could do more about it.
                let _ = spawn_blocking(move || spool.keep(left)).await;
                self.count(count);
            }
        }
    }

    fn count(&self, records: usize) {
        self.written
            .send_modify(|written| *written += records as u64);
    }

    /// Tries until the store takes the records or the time to stop is up.
    async fn append(&mut self, records: &[AuditRecord]) -> Result<(), TimeUp> {
        let mut pause = FIRST_PAUSE;
        let mut failed = false;
        loop {
            let mut stop = self.stop.clone();
            let result = tokio::select! {
                biased;
                () = stop.up() => return Err(TimeUp),
                result = append(self.store.as_ref(), records) => result,
            };
            match result {
                Ok(()) => {
                    if failed {
                        info!("the audit trail is written again");
                    }
                    return Ok(());
                }
                Err(error) if !failed => {
                    failed = true;
                    error!(
                        error = &error as &dyn std::error::Error,
                        "the audit trail cannot be written; records wait"
                    );
                }
                Err(_) => {}
            }
            tokio::select! {
                biased;
                () = stop.up() => return Err(TimeUp),
                () = sleep(pause) => {}
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Writes what earlier starts left. A file is removed when the store has all
    /// of it; one that is read twice is in the store once.
    async fn read_back(&mut self) -> Result<(), TimeUp> {
        let spool = Arc::clone(&self.spool);
        let files = match blocking(move || spool.files()).await {
            Ok(files) => files,
            Err(error) => {
                error!(%error, "failed to look for audit records of earlier starts");
                return Ok(());
            }
        };
        for file in files {
            let path = file.clone();
            match blocking(move || spool::read(&path)).await {
                Ok(records) => self.write_back(file, &records).await?,
                Err(error) => error!(%error, "failed to read `{}`", file.display()),
            }
        }
        Ok(())
    }

    async fn write_back(&mut self, file: PathBuf, records: &[AuditRecord]) -> Result<(), TimeUp> {
        let mut left = records;
        while !left.is_empty() {
            let (part, rest) = left.split_at(part(left));
            self.append(part).await?;
            left = rest;
        }
        let name = file.display().to_string();
        match blocking(move || std::fs::remove_file(file)).await {
            Ok(()) => info!(
                audit.records = records.len(),
                "wrote {} audit records of an earlier start",
                records.len()
            ),
            Err(error) => warn!(%error, "failed to remove `{name}`, whose records are written"),
        }
        Ok(())
    }
}

async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    spawn_blocking(call).await.map_err(std::io::Error::other)?
}

/// How many of the first records go in one call: at least one.
fn part(records: &[AuditRecord]) -> usize {
    let mut bytes = 0;
    let fit = records.iter().take(BATCH).take_while(|record| {
        bytes += weight(record);
        bytes <= BATCH_BYTES
    });
    fit.count().max(1)
}

/// A store that panics or hangs has failed.
async fn append<S: Trail + ?Sized>(store: &S, records: &[AuditRecord]) -> Result<(), Error> {
    let call = AssertUnwindSafe(store.append(records)).catch_unwind();
    match timeout(APPEND_LIMIT, call).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Error::internal("the store panicked")),
        Err(_) => Err(Error::new(
            ErrorCode::Timeout,
            "the store did not answer in time",
        )),
    }
}
