//! What is left when the time to stop is up.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sandbox_audit::{Audit, AuditSettings};
use sandbox_core::ManualClock;
use tempfile::TempDir;

use crate::{
    fake::{FakeStore, Mood},
    record, records,
};

const LIMIT: Duration = Duration::from_secs(60);

fn start(store: &Arc<FakeStore>, folder: &TempDir) -> Audit {
    let settings = AuditSettings {
        queue: 600,
        spool: Some(folder.path().join("spool")),
        ..AuditSettings::default()
    };
    let clock = Arc::new(ManualClock::default());
    Audit::start(Arc::clone(store), clock, settings)
}

fn files(folder: &TempDir, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.path().join("spool")) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_stop_writes_what_is_queued_and_takes_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let store = FakeStore::new(Mood::Hung);
    let audit = start(&store, &folder);
    for record in records(0..500) {
        audit.record(record).await;
    }
    let ((), ()) = futures::join!(audit.shutdown(LIMIT), async { store.set(Mood::Up) });
    assert_eq!(store.kept(), records(0..500));
    assert!(files(&folder, "jsonl").is_empty());
    // One that comes late is not lost either.
    audit.record(record(500)).await;
    assert_eq!(store.kept(), records(0..500));
    let audit = start(&store, &folder);
    audit.record(record(501)).await;
    audit.flush(LIMIT).await.unwrap();
    assert_eq!(store.kept(), records(0..502));
}

#[tokio::test]
async fn what_a_stop_could_not_write_the_next_start_does() {
    let folder = tempfile::tempdir().unwrap();
    for mood in [Mood::Down, Mood::Hung, Mood::AnswerLost] {
        let store = FakeStore::new(mood);
        let audit = start(&store, &folder);
        for record in records(0..600) {
            audit.record(record).await;
        }
        // The queue is full: these wait, and are let go by the stop.
        let waiting = futures::future::join_all((600..610).map(|n| audit.record(record(n))));
        let stop = async {
            store.called(1).await;
            audit.shutdown(Duration::from_millis(10)).await;
        };
        futures::join!(waiting, stop);
        let spooled = files(&folder, "jsonl");
        assert_eq!(spooled.len(), 1, "{spooled:?}");
        assert_eq!(mode(&spooled[0]), 0o600);
        assert_eq!(mode(spooled[0].parent().unwrap()), 0o700);

        // A start that gets nowhere leaves them as they are.
        let before = fs::read(&spooled[0]).unwrap();
        let down = FakeStore::new(Mood::Down);
        let audit = start(&down, &folder);
        down.called(1).await;
        audit.shutdown(Duration::ZERO).await;
        assert_eq!(fs::read(&spooled[0]).unwrap(), before);

        store.set(Mood::Up);
        let audit = start(&store, &folder);
        audit.record(record(610)).await;
        audit.flush(LIMIT).await.unwrap();
        let mut kept = store.kept();
        // Those that waited were let go in any order.
        kept[..610].sort_by(|a, b| a.id.cmp(&b.id));
        assert_eq!(kept, records(0..611), "{mood:?}");
        assert!(files(&folder, "jsonl").is_empty());
        audit.shutdown(LIMIT).await;
    }
}

#[tokio::test]
async fn handles_that_are_dropped_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = FakeStore::new(Mood::Down);
    let audit = start(&store, &folder);
    for record in records(0..5) {
        audit.record(record).await;
    }
    drop(audit);
    let lines = || {
        let file = files(&folder, "jsonl").pop()?;
        Some(fs::read_to_string(file).unwrap().lines().count())
    };
    while lines() != Some(5) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store.set(Mood::Up);
    let audit = start(&store, &folder);
    audit.record(record(5)).await;
    audit.flush(LIMIT).await.unwrap();
    assert_eq!(store.kept(), records(0..6));
}

#[tokio::test]
async fn a_damaged_line_keeps_no_other_out() {
    let folder = tempfile::tempdir().unwrap();
    let store = FakeStore::new(Mood::Down);
    let audit = start(&store, &folder);
    for record in records(0..4) {
        audit.record(record).await;
    }
    audit.shutdown(Duration::ZERO).await;
    let file = files(&folder, "jsonl").remove(0);
    let text = fs::read(&file).unwrap();
    let mut lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').collect();
    lines[1] = b"{\"id\": 5}\n";
    lines.insert(2, b"\xff\0\n");
    // Cut off, as by a disk that was full.
    let last = lines.pop().unwrap();
    lines.push(&last[..last.len() / 2]);
    fs::write(&file, lines.concat()).unwrap();

    store.set(Mood::Up);
    let audit = start(&store, &folder);
    audit.record(record(9)).await;
    audit.flush(LIMIT).await.unwrap();
    assert_eq!(store.kept(), records([0, 2, 9]));
    assert!(files(&folder, "jsonl").is_empty());
    let damaged = fs::read(&files(&folder, "damaged")[0]).unwrap();
    let expected = [lines[1], lines[2], &last[..last.len() / 2], b"\n"].concat();
    assert_eq!(damaged, expected);
}

#[tokio::test]
async fn a_spool_that_cannot_be_written_holds_nobody() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("spool"),
        "a file where the folder should be",
    )
    .unwrap();
    let store = FakeStore::new(Mood::Down);
    let audit = start(&store, &folder);
    for record in records(0..10) {
        audit.record(record).await;
    }
    audit.shutdown(Duration::ZERO).await;
    audit.record(record(10)).await;
    assert_eq!(audit.depth(), 0);
}
