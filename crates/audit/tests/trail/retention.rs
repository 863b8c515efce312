//! What is too old goes, step by step.

use std::{sync::Arc, time::Duration};

use sandbox_audit::{Audit, AuditSettings};
use sandbox_core::{ManualClock, Timestamp};

use crate::{
    fake::{FakeStore, Mood},
    records,
};

const INTERVAL: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn old_records_and_names_of_runs_are_forgotten_in_steps() {
    let store = FakeStore::new(Mood::Up);
    store.keep(&records(0..2000));
    let clock = ManualClock::default();
    let settings = AuditSettings {
        retention: Some(Duration::from_millis(1000)),
        claim_retention: Some(Duration::from_millis(300)),
        sweep_interval: INTERVAL,
        ..AuditSettings::default()
    };
    let audit = Audit::start(Arc::clone(&store), Arc::new(clock.clone()), settings);
    tokio::time::sleep(INTERVAL / 2).await;
    assert_eq!(store.kept().len(), 2000);
    clock.advance(Duration::from_millis(2200));
    tokio::time::sleep(INTERVAL).await;
    assert_eq!(store.kept(), records(1200..2000));
    let forgotten = store.forgotten.lock().unwrap().clone();
    let steps: Vec<_> = forgotten[1..].iter().map(|(before, _)| before.0).collect();
    assert_eq!(steps, [1200; 3]);
    assert!(forgotten.iter().all(|(_, limit)| *limit <= 1000));
    let freed = store.freed.lock().unwrap().clone();
    assert_eq!(freed, [Timestamp(-300), Timestamp(1900)]);
    // Nothing is swept any more.
    audit.shutdown(INTERVAL).await;
    clock.advance(Duration::from_secs(60));
    tokio::time::sleep(INTERVAL * 3).await;
    assert_eq!(store.kept().len(), 800);
}

#[tokio::test(start_paused = true)]
async fn without_a_retention_all_is_kept() {
    let store = FakeStore::new(Mood::Up);
    store.keep(&records(0..10));
    let clock = ManualClock::default();
    clock.advance(Duration::from_secs(1_000_000));
    let settings = AuditSettings {
        claim_retention: None,
        ..AuditSettings::default()
    };
    let _audit = Audit::start(Arc::clone(&store), Arc::new(clock), settings);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(store.kept().len(), 10);
    assert!(store.forgotten.lock().unwrap().is_empty());
    assert!(store.freed.lock().unwrap().is_empty());
}
