//! A service that is killed while it writes what an earlier start left.

use std::{
    env,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use sandbox_audit::{Audit, AuditSettings};
use sandbox_core::ManualClock;
use sandbox_store::{AuditStore as _, SqliteStore};

use crate::{
    fake::{FakeStore, Mood},
    record, records,
};

const FOLDER: &str = "AUDIT_TEST_FOLDER";
const LIMIT: Duration = Duration::from_secs(60);

fn settings(folder: &Path) -> AuditSettings {
    AuditSettings {
        spool: Some(folder.join("spool")),
        ..AuditSettings::default()
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::default())
}

/// Not a test: what the process that is killed does.
#[tokio::test]
#[ignore = "run by a_kill_loses_nothing_that_was_spooled"]
async fn service_that_is_killed() {
    let folder = env::var_os(FOLDER).unwrap();
    let folder = Path::new(&folder);
    let down = FakeStore::new(Mood::Down);
    let audit = Audit::start(down, clock(), settings(folder));
    for record in records(0..700) {
        audit.record(record).await;
    }
    audit.shutdown(Duration::ZERO).await;
    // The next start gets a part into the store, then the store hangs.
    let store = SqliteStore::open(&folder.join("x.db")).await.unwrap();
    let spooled = records(0..256);
    store.append(&spooled).await.unwrap();
    let hung = FakeStore::new(Mood::Hung);
    let _audit = Audit::start(Arc::clone(&hung), clock(), settings(folder));
    hung.called(1).await;
    println!("ready to die");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_kill_loses_nothing_that_was_spooled() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "kill::service_that_is_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(FOLDER, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(service.stdout.take().unwrap());
    let ready = said
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains("ready to die"));
    service.kill().unwrap();
    service.wait().unwrap();
    assert!(ready, "the service did not get that far");

    let store = SqliteStore::open(&folder.path().join("x.db"))
        .await
        .unwrap();
    let store = Arc::new(store);
    let audit = Audit::start(Arc::clone(&store), clock(), settings(folder.path()));
    audit.record(record(700)).await;
    audit.flush(LIMIT).await.unwrap();
    let kept = store
        .oldest(&Default::default(), None, 10_000)
        .await
        .unwrap();
    let ids: Vec<_> = kept.iter().map(|record| &record.id).collect();
    let expected = records(0..701);
    assert_eq!(
        ids,
        expected.iter().map(|record| &record.id).collect::<Vec<_>>()
    );
    let left = std::fs::read_dir(folder.path().join("spool")).unwrap();
    assert_eq!(left.count(), 0);
}
