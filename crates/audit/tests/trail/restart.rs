//! The real database, stopped and started under the trail.

use std::{sync::Arc, time::Duration};

use sandbox_audit::{Audit, AuditSettings};
use sandbox_core::SystemClock;
use sandbox_store::{AuditFilter, AuditRecord, Store};

use crate::{records, server::Server};

const LIMIT: Duration = Duration::from_secs(60);

async fn all(store: &dyn Store) -> Vec<AuditRecord> {
    let filter = AuditFilter::default();
    store.oldest(&filter, None, 10_000).await.unwrap()
}

/// As the database keeps it.
fn stored(records: Vec<AuditRecord>) -> Vec<AuditRecord> {
    let stored = records.into_iter().map(|record| AuditRecord {
        code: record.code.map(|code| code.replace('\0', "\u{2400}")),
        bytes: Some(i64::MAX as u64),
        ..record
    });
    stored.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_record_is_lost_or_doubled_by_a_restart_of_the_database() {
    let server = Server::start();
    let store = sandbox_store::open(&server.database(), "").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let settings = AuditSettings {
        spool: Some(folder.path().into()),
        ..AuditSettings::default()
    };
    let start = || {
        let clock = Arc::new(SystemClock);
        Audit::start(Arc::clone(&store), clock, settings.clone())
    };
    let audit = start();
    let made = Arc::new(records(0..3000));
    let recording = tokio::spawn({
        let (audit, made) = (audit.clone(), Arc::clone(&made));
        async move {
            for (n, record) in made.iter().enumerate() {
                audit.record(record.clone()).await;
                if n % 100 == 0 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    });
    tokio::task::block_in_place(|| {
        for _ in 0..2 {
            server.stop();
            server.resume();
        }
    });
    recording.await.unwrap();
    audit.flush(LIMIT).await.unwrap();
    assert_eq!(all(store.as_ref()).await, stored(records(0..3000)));

    // And when the service stops before the database is back.
    tokio::task::block_in_place(|| server.stop());
    for record in records(3000..3300) {
        audit.record(record).await;
    }
    audit.shutdown(Duration::from_millis(50)).await;
    tokio::task::block_in_place(|| server.resume());
    let audit = start();
    for record in records(3300..3301) {
        audit.record(record).await;
    }
    audit.flush(LIMIT).await.unwrap();
    assert_eq!(all(store.as_ref()).await, stored(records(0..3301)));
    audit.shutdown(LIMIT).await;
}
