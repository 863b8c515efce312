//! Values that somebody chose to break a store.

use sandbox_core::Timestamp;
use sandbox_store::{ArtifactRecord, AuditRecord, AuditStore, Store};

use super::{all, artifact, entry, key, record};

fn with_text(n: u32, text: &str) -> AuditRecord {
    AuditRecord {
        subject: text.into(),
        language: Some(text.into()),
        code: Some(text.into()),
        path: Some(text.into()),
        outcome: text.into(),
        request_id: Some(text.into()),
        ..entry(n)
    }
}

pub async fn text_is_in_the_order_of_its_bytes(store: &dyn Store) {
    // People would sort these in another way.
    let ids = ["B", "Z-a", "Za", "a", "aB", "a_", "ab"];
    assert!(ids.is_sorted());
    for id in ids.iter().rev() {
        let entry = AuditRecord {
            id: (*id).into(),
            ..entry(1)
        };
        store.append(&[entry]).await.unwrap();
        store.put(&record(id, id)).await.unwrap();
    }
    let sessions = store.load().await.unwrap();
    let tenants: Vec<_> = sessions
        .iter()
        .map(|found| found.key.tenant.as_str())
        .collect();
    assert_eq!(tenants, ids);
    let after = store
        .oldest(&Default::default(), Some("Za"), 9)
        .await
        .unwrap();
    let after: Vec<_> = after.iter().map(|found| found.id.as_str()).collect();
    assert_eq!(after, ids[3..]);
}

pub async fn hostile_text_comes_back(store: &dyn AuditStore) {
    let large = "x = '€'\n".repeat(1024 * 1024 / 10);
    let texts = [
        "",
        "🦀𝒳\u{10ffff}",
        "a\r\n\t\u{7f}\u{1b}[0m",
        "\u{202e}e\u{301}\u{feff}\u{2028}",
        "\\x00 \\0 \\",
        &large,
    ];
    let records: Vec<_> = (0..)
        .zip(texts)
        .map(|(n, text)| with_text(n, text))
        .collect();
    store.append(&records).await.unwrap();
    assert_eq!(all(store).await, records);
}

pub async fn nul_in_text_becomes_its_symbol(store: &dyn Store) {
    // One record's NUL must not keep its neighbours out.
    let records = [entry(1), with_text(2, "a\0b\0"), entry(3)];
    store.append(&records).await.unwrap();
    let kept = store.oldest(&Default::default(), None, 9).await.unwrap();
    assert_eq!(
        kept,
        [entry(1), with_text(2, "a\u{2400}b\u{2400}"), entry(3)]
    );
    let named = |name: &str| ArtifactRecord {
        name: name.into(),
        ..artifact("a", "t", "s", 1)
    };
    store.add_artifacts(&[named("a\0.png")]).await.unwrap();
    let found = store.find_artifact("a").await.unwrap();
    assert_eq!(found, Some(named("a\u{2400}.png")));
    assert_eq!(store.find_artifact("\0").await.unwrap(), None);
}

pub async fn numbers_beyond_the_columns_become_the_largest(store: &dyn Store) {
    let record = |bytes, duration_ms| AuditRecord {
        bytes: Some(bytes),
        duration_ms,
        exit_code: Some(i32::MIN),
        at: Timestamp(i64::MIN),
        ..entry(1)
    };
    store.append(&[record(u64::MAX, u64::MAX)]).await.unwrap();
    let largest = i64::MAX as u64;
    let kept = store.oldest(&Default::default(), None, 9).await.unwrap();
    assert_eq!(kept, [record(largest, largest)]);
    let huge = ArtifactRecord {
        size_bytes: u64::MAX,
        ..artifact("a", "t", "s", i64::MAX)
    };
    store.add_artifacts(&[huge]).await.unwrap();
    let found = store.session_artifacts(&key("t", "s"), usize::MAX).await;
    assert_eq!(found.unwrap()[0].size_bytes, largest);
}

pub async fn statements_in_values_stay_values(store: &dyn Store) {
    let text = "'); DROP TABLE audit; -- $1 ? {} \" ` %s";
    let record = AuditRecord {
        id: text.into(),
        ..with_text(1, text)
    };
    store.append(std::slice::from_ref(&record)).await.unwrap();
    let found = store.newest(&Default::default(), Some("~"), 9).await;
    assert_eq!(found.unwrap(), [record]);
    assert_eq!(store.find_key(text).await.unwrap(), None);
    store.remove_artifacts(&[text.into()]).await.unwrap();
}
