//! The contract on SQLite, and what is SQLite's own.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod contract;

use std::{error::Error as _, fs, os::unix::fs::PermissionsExt as _, path::Path};

use contract::record;
use sandbox_core::{Error, ErrorCode, SessionOptions};
use sandbox_store::{SessionRecord, SessionStore as _, SqliteStore, StoreError};
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;

mod in_a_file {
    super::contract::keep_the_contract!(super::a_file);
}

mod in_memory {
    super::contract::keep_the_contract!(super::memory);
}

async fn a_file() -> (SqliteStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (open(&folder).await, folder)
}

async fn memory() -> (SqliteStore, ()) {
    (SqliteStore::in_memory().await.unwrap(), ())
}

async fn open(folder: &TempDir) -> SqliteStore {
    SqliteStore::open(&folder.path().join("x.db"))
        .await
        .unwrap()
}

async fn refused(path: &Path) -> StoreError {
    match SqliteStore::open(path).await {
        Ok(_) => panic!("`{}` was opened", path.display()),
        Err(error) => error,
    }
}

async fn change(folder: &TempDir, sql: &str) {
    let url = format!("sqlite:{}", folder.path().join("x.db").display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_reopened_file_has_its_records() {
    let folder = tempfile::tempdir().unwrap();
    open(&folder).await.put(&record("t", "a")).await.unwrap();
    // The first store was not closed, as after a kill.
    let again = open(&folder).await;
    assert_eq!(again.load().await.unwrap(), vec![record("t", "a")]);
    again.ping().await.unwrap();
}

#[tokio::test]
async fn two_stores_write_to_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (open(&folder).await, open(&folder).await);
    let records: Vec<_> = (0..40).map(|n| record("t", &format!("{n:02}"))).collect();
    let (a, b) = records.split_at(20);
    let (a, b) = futures::join!(
        futures::future::try_join_all(a.iter().map(|record| one.put(record))),
        futures::future::try_join_all(b.iter().map(|record| two.put(record))),
    );
    a.unwrap();
    b.unwrap();
    assert_eq!(one.load().await.unwrap(), records);
}

#[tokio::test]
async fn every_file_of_the_database_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let store = open(&folder).await;
    store.put(&record("t", "a")).await.unwrap();
    let modes: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap())
        .map(|file| {
            (
                file.file_name(),
                file.metadata().unwrap().permissions().mode() & 0o777,
            )
        })
        .collect();
    assert!(modes.len() >= 2, "no log beside the database: {modes:?}");
    assert!(modes.iter().all(|(_, mode)| *mode == 0o600), "{modes:?}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_by_name_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let text = "not a database\n".repeat(1000);
    fs::write(&path, &text).unwrap();
    let error = refused(&path).await;
    let name = path.display().to_string();
    assert!(error.to_string().contains(&name), "{error}");
    assert!(
        error
            .source()
            .unwrap()
            .to_string()
            .contains("not a database")
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_damaged_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    for n in 0..200 {
        store.put(&record("t", &n.to_string())).await.unwrap();
    }
    drop(store);
    change(&folder, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    let path = folder.path().join("x.db");
    let mut bytes = fs::read(&path).unwrap();
    assert!(bytes.len() > 5 * 4096);
    bytes[4096..].fill(0x55);
    fs::write(&path, bytes).unwrap();
    refused(&path).await;
}

#[tokio::test]
async fn a_folder_that_is_missing_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing/x.db");
    let error = refused(&path).await;
    assert!(matches!(error, StoreError::Create { .. }), "{error:?}");
    assert!(error.to_string().contains("missing/x.db"), "{error}");
}

#[tokio::test]
async fn a_record_that_is_not_understood_is_an_error_that_names_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    store.put(&record("t", "good")).await.unwrap();
    store.put(&record("t", "a")).await.unwrap();
    change(
        &folder,
        "UPDATE sessions SET spec = '{\"new\": 1}' WHERE session_id = 'a'",
    )
    .await;
    let error: Error = store.load().await.unwrap_err();
    assert_eq!(
        (error.code(), error.detail()),
        (ErrorCode::Internal, "internal error")
    );
    let source = error.source().unwrap().to_string();
    assert_eq!(source, "the record of session `t/a` has a bad spec");
}

#[tokio::test]
async fn a_store_that_lost_its_table_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    store.ping().await.unwrap();
    change(&folder, "DROP TABLE sessions").await;
    assert_eq!(store.ping().await.unwrap_err().code(), ErrorCode::Internal);
}

#[tokio::test]
async fn what_was_kept_before_there_were_owners_is_the_first_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let url = format!("sqlite:{}", path.display());
    let mut first = sqlx::migrate!("../../migrations/sqlite");
    first.migrations.to_mut().truncate(1);
    let new = format!("{url}?mode=rwc");
    let mut connection = SqliteConnection::connect(&new).await.unwrap();
    first.run_direct(&mut connection).await.unwrap();
    sqlx::query("INSERT INTO sessions VALUES ('t', 'a', 'local', $1, 1000, 2000, 900001, 3000)")
        .bind(serde_json::to_string(&record("t", "a").spec).unwrap())
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();

    let one = sandbox_store::open(&url, "one").await.unwrap();
    // Nobody had asked for anything then.
    let kept = SessionRecord {
        options: SessionOptions::default(),
        paused_at: None,
        ..record("t", "a")
    };
    assert_eq!(one.load().await.unwrap(), std::slice::from_ref(&kept));
    let two = sandbox_store::open(&url, "two").await.unwrap();
    assert_eq!(two.load().await.unwrap(), []);
    two.put(&record("t", "a")).await.unwrap();
    two.remove(&record("t", "a").key).await.unwrap();
    assert_eq!(one.load().await.unwrap(), [kept]);
}

#[tokio::test]
async fn a_store_in_memory_leaves_no_file() {
    let before = fs::read_dir(".").unwrap().count();
    let store = sandbox_store::open("sqlite::memory:", "one").await.unwrap();
    store.put(&record("t", "a")).await.unwrap();
    assert_eq!(store.load().await.unwrap(), [record("t", "a")]);
    assert_eq!(fs::read_dir(".").unwrap().count(), before);
    let another = sandbox_store::open("sqlite::memory:", "one").await.unwrap();
    assert_eq!(another.load().await.unwrap(), []);
}
