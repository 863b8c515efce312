//! Order, bounds and a store that fails.

use std::{sync::Arc, time::Duration};

use futures::{
    future::{join_all, poll_immediate},
    pin_mut,
};
use sandbox_audit::{Audit, AuditSettings};
use sandbox_core::ManualClock;
use sandbox_store::AuditRecord;

use crate::{
    fake::{FakeStore, Mood},
    record, records,
};

const LIMIT: Duration = Duration::from_secs(60);

fn start(store: &Arc<FakeStore>, settings: AuditSettings) -> Audit {
    let clock = Arc::new(ManualClock::default());
    Audit::start(Arc::clone(store), clock, settings)
}

#[tokio::test(start_paused = true)]
async fn records_reach_the_store_in_order_and_in_batches() {
    let store = FakeStore::new(Mood::Hung);
    let audit = start(&store, AuditSettings::default());
    for record in records(0..1000) {
        audit.record(record).await;
    }
    assert_eq!(audit.depth(), 1000);
    store.set(Mood::Up);
    audit.flush(LIMIT).await.unwrap();
    assert_eq!(store.kept(), records(0..1000));
    assert_eq!(audit.depth(), 0);
    let calls = store.calls.lock().unwrap();
    assert!(
        calls.len() < 10 && calls.iter().all(|n| *n <= 256),
        "{calls:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_holds_its_callers() {
    let store = FakeStore::new(Mood::Hung);
    let settings = AuditSettings {
        queue: 3,
        ..AuditSettings::default()
    };
    let audit = start(&store, settings);
    for n in 0..3 {
        audit.record(record(n)).await;
    }
    // What the writer has in hand counts as well.
    store.called(1).await;
    let fourth = audit.record(record(3));
    pin_mut!(fourth);
    assert!(poll_immediate(&mut fourth).await.is_none());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(poll_immediate(&mut fourth).await.is_none());
    assert_eq!(audit.depth(), 3);
    store.set(Mood::Up);
    fourth.await;
    audit.flush(LIMIT).await.unwrap();
    assert_eq!(store.kept(), records(0..4));
}

#[tokio::test(start_paused = true)]
async fn large_records_fill_the_queue_by_their_size() {
    let store = FakeStore::new(Mood::Hung);
    let settings = AuditSettings {
        queue_bytes: 3 * 1024 * 1024,
        ..AuditSettings::default()
    };
    let audit = start(&store, settings);
    let large = |n, bytes| AuditRecord {
        code: Some("x".repeat(bytes)),
        ..record(n)
    };
    let mib = 1024 * 1024;
    audit.record(large(0, mib)).await;
    audit.record(large(1, mib)).await;
    let third = audit.record(large(2, mib));
    pin_mut!(third);
    assert!(poll_immediate(&mut third).await.is_none());
    // Nobody gets past one that waits, or it would wait for ever.
    let small = audit.record(record(3));
    pin_mut!(small);
    assert!(poll_immediate(&mut small).await.is_none());
    store.set(Mood::Up);
    futures::join!(third, small);
    // Larger than the whole queue: alone, but through.
    audit.record(large(4, 5 * mib)).await;
    audit.flush(LIMIT).await.unwrap();
    let ids: Vec<_> = store.kept().into_iter().map(|record| record.id).collect();
    let expected: Vec<_> = records(0..5).into_iter().map(|record| record.id).collect();
    assert_eq!(ids, expected);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_costs_no_other_record() {
    let store = FakeStore::new(Mood::Hung);
    let settings = AuditSettings {
        queue: 1,
        ..AuditSettings::default()
    };
    let audit = start(&store, settings);
    audit.record(record(0)).await;
    let mut waiting: Vec<_> = (1..10).map(|n| Box::pin(audit.record(record(n)))).collect();
    for call in &mut waiting {
        assert!(poll_immediate(call).await.is_none());
    }
    // Every second one goes away.
    let mut n = 0;
    waiting.retain(|_| {
        n += 1;
        n % 2 == 0
    });
    store.set(Mood::Up);
    join_all(waiting).await;
    audit.flush(LIMIT).await.unwrap();
    assert_eq!(store.kept(), records([0, 2, 4, 6, 8]));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_tried_until_it_is_up() {
    for mood in [Mood::Down, Mood::AnswerLost, Mood::Panics, Mood::Hung] {
        let store = FakeStore::new(mood);
        let audit = start(&store, AuditSettings::default());
        for record in records(0..300) {
            audit.record(record).await;
        }
        // What is known to be in the store is not what may be there.
        assert_eq!(audit.flush(LIMIT).await, Err(300), "{mood:?}");
        assert_eq!(audit.depth(), 300);
        let calls = store.calls.lock().unwrap().len();
        assert!((1..200).contains(&calls), "{calls} calls in a minute");
        store.set(Mood::Up);
        audit.flush(LIMIT).await.unwrap();
        assert_eq!(store.kept(), records(0..300), "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ids_sort_while_the_clock_stands() {
    let audit = start(&FakeStore::new(Mood::Up), AuditSettings::default());
    let ids: Vec<_> = (0..5000).map(|_| audit.new_id()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b));
}
