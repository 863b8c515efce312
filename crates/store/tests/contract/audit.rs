//! The audit trail.

use std::collections::BTreeSet;

use futures::future::try_join_all;
use sandbox_core::Timestamp;
use sandbox_store::{AuditAction, AuditFilter, AuditRecord, AuditStore};

use super::key;

/// The `n`th record, as small as they come.
pub fn entry(n: u32) -> AuditRecord {
    AuditRecord {
        id: format!("0190-{n:06}"),
        at: Timestamp(i64::from(n)),
        tenant: "t".parse().unwrap(),
        session: None,
        subject: "alice".into(),
        action: AuditAction::Write,
        execution: None,
        language: None,
        code_sha256: None,
        code: None,
        path: None,
        outcome: "ok".into(),
        exit_code: None,
        bytes: None,
        duration_ms: 0,
        request_id: None,
    }
}

fn full_entry(n: u32) -> AuditRecord {
    AuditRecord {
        session: Some("s".parse().unwrap()),
        action: AuditAction::Execute,
        execution: Some("run-1".parse().unwrap()),
        language: Some("python".into()),
        code_sha256: Some("ab".repeat(32)),
        code: Some("print('ä')\n".into()),
        path: Some("a/b".into()),
        outcome: "exited".into(),
        exit_code: Some(-1),
        bytes: Some(1 << 40),
        duration_ms: 12,
        request_id: Some("r".into()),
        ..entry(n)
    }
}

pub fn entries(numbers: impl IntoIterator<Item = u32>) -> Vec<AuditRecord> {
    numbers.into_iter().map(entry).collect()
}

pub async fn all(store: &dyn AuditStore) -> Vec<AuditRecord> {
    let filter = AuditFilter::default();
    store.oldest(&filter, None, 100_000).await.unwrap()
}

pub async fn audit_records_come_back_whole_from_either_end(store: &dyn AuditStore) {
    assert_eq!(all(store).await, []);
    store.append(&[]).await.unwrap();
    let records = [full_entry(1), entry(2), full_entry(3)];
    store.append(&records[1..]).await.unwrap();
    store.append(&records[..1]).await.unwrap();
    assert_eq!(all(store).await, records);
    let newest = store.newest(&AuditFilter::default(), None, 2).await;
    assert_eq!(newest.unwrap(), [full_entry(3), entry(2)]);
}

pub async fn audit_pages_have_each_record_once(store: &dyn AuditStore) {
    // More than one INSERT.
    let records = entries(0..1000);
    store.append(&records).await.unwrap();
    let filter = AuditFilter::default();
    let (mut up, mut down) = (Vec::new(), Vec::new());
    loop {
        let after = up.last().map(|record: &AuditRecord| record.id.clone());
        let page = store.oldest(&filter, after.as_deref(), 300).await.unwrap();
        if page.is_empty() {
            break;
        }
        up.extend(page);
    }
    loop {
        let before = down.last().map(|record: &AuditRecord| record.id.clone());
        let page = store.newest(&filter, before.as_deref(), 300).await.unwrap();
        if page.is_empty() {
            break;
        }
        down.extend(page);
    }
    assert_eq!(up, records);
    down.reverse();
    assert_eq!(down, records);
    assert_eq!(store.newest(&filter, None, 0).await.unwrap(), []);
    let none = store.oldest(&filter, Some("~' OR 1=1 --"), usize::MAX);
    assert_eq!(none.await.unwrap(), []);
}

pub async fn an_audit_filter_leaves_out_what_does_not_fit(store: &dyn AuditStore) {
    let plain = entry(1);
    let of_session = AuditRecord {
        session: Some("s".parse().unwrap()),
        action: AuditAction::Execute,
        ..entry(2)
    };
    let of_run = AuditRecord {
        execution: Some("run".parse().unwrap()),
        action: AuditAction::Bash,
        ..entry(3)
    };
    let of_another = AuditRecord {
        tenant: "u".parse().unwrap(),
        session: Some("s".parse().unwrap()),
        ..entry(4)
    };
    let records = [plain, of_session, of_run, of_another];
    store.append(&records).await.unwrap();
    let key = key("t", "s");
    let none = AuditFilter::default;
    let tenant = AuditFilter {
        tenant: Some(key.tenant.clone()),
        ..none()
    };
    let cases = [
        (none(), vec![1, 2, 3, 4]),
        (tenant.clone(), vec![1, 2, 3]),
        (
            AuditFilter {
                session: Some(key.session.clone()),
                ..tenant.clone()
            },
            vec![2],
        ),
        (
            AuditFilter {
                session: Some(key.session.clone()),
                ..none()
            },
            vec![2, 4],
        ),
        (
            AuditFilter {
                actions: vec![AuditAction::Bash, AuditAction::Execute],
                ..none()
            },
            vec![2, 3],
        ),
        (
            AuditFilter {
                execution: Some("run".parse().unwrap()),
                ..none()
            },
            vec![3],
        ),
        (
            AuditFilter {
                from: Some(Timestamp(2)),
                until: Some(Timestamp(4)),
                ..tenant
            },
            vec![2, 3],
        ),
    ];
    for (filter, expected) in cases {
        let up = store.oldest(&filter, None, 10).await.unwrap();
        let mut down = store.newest(&filter, None, 10).await.unwrap();
        down.reverse();
        let expected: Vec<_> = expected.iter().map(|n| records[n - 1].clone()).collect();
        assert_eq!(up, expected, "{filter:?}");
        assert_eq!(down, expected, "{filter:?}");
    }
}

pub async fn a_repeated_append_changes_nothing(store: &dyn AuditStore) {
    store.append(&entries([1, 2])).await.unwrap();
    let changed = AuditRecord {
        outcome: "changed".into(),
        ..entry(2)
    };
    let again = [changed, entry(3), entry(3)];
    store.append(&again).await.unwrap();
    assert_eq!(all(store).await, entries([1, 2, 3]));
}

pub async fn an_append_is_whole_or_not_at_all(store: &dyn AuditStore) {
    let records = entries(0..600);
    let mut append = Box::pin(store.append(&records));
    // Dropped somewhere on its way.
    for _ in 0..3 {
        let mut once = std::pin::pin!(tokio::time::timeout(
            std::time::Duration::from_millis(1),
            &mut append
        ));
        let _ = once.as_mut().await;
    }
    drop(append);
    let kept = all(store).await.len();
    assert!(kept == 0 || kept == 600, "{kept} of 600");
    store.append(&records).await.unwrap();
    assert_eq!(all(store).await, records);
}

pub async fn old_audit_records_are_forgotten_in_steps(store: &dyn AuditStore) {
    store.append(&entries(0..10)).await.unwrap();
    let before = Timestamp(7);
    assert_eq!(store.forget(before, 4).await.unwrap(), 4);
    assert_eq!(all(store).await, entries(4..10));
    assert_eq!(store.forget(before, 4).await.unwrap(), 3);
    assert_eq!(store.forget(before, 4).await.unwrap(), 0);
    assert_eq!(all(store).await, entries(7..10));
}

pub async fn appends_at_the_same_time_lose_nothing(store: &dyn AuditStore) {
    // Each batch has records of its neighbours, in another order: rows that wait
    // for one another.
    let batches: Vec<Vec<_>> = (0..10_u32)
        .map(|n| {
            let mut batch = entries(n * 100..n * 100 + 600);
            if n % 2 == 1 {
                batch.reverse();
            }
            batch
        })
        .collect();
    try_join_all(batches.iter().map(|batch| store.append(batch)))
        .await
        .unwrap();
    let ids: BTreeSet<_> = batches.iter().flatten().map(|entry| &entry.id).collect();
    assert_eq!(all(store).await.len(), ids.len());
}
