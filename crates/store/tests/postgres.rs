//! The contract on PostgreSQL, and what is PostgreSQL's own.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod contract;
mod server;

use std::{
    error::Error as _,
    time::{Duration, Instant},
};

use contract::{all, artifact, entries, key, record};
use futures::future::{join_all, try_join_all};
use sandbox_core::{ErrorCode, Timestamp};
use sandbox_store::{AuditStore as _, PostgresStore, SessionStore as _, StoreError, open};
use server::{PASSWORD, Server};
use sqlx::{Connection as _, Executor as _, PgConnection};

contract::keep_the_contract!(empty);

async fn empty() -> (PostgresStore, ()) {
    let url = Server::shared().database();
    (PostgresStore::connect(&url).await.unwrap(), ())
}

/// Longer than any call may take.
const LONG: Duration = Duration::from_secs(13);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn services_that_start_together_all_find_the_tables() {
    for _ in 0..10 {
        let url = Server::shared().database();
        let stores = (0..6).map(|_| {
            let url = url.clone();
            // Each on a thread, so that they are there at the same time.
            tokio::spawn(async move { PostgresStore::connect(&url).await })
        });
        for store in join_all(stores).await {
            store.unwrap().unwrap().ping().await.unwrap();
        }
        let applied = "SELECT count(*), count(DISTINCT version) FROM _sqlx_migrations";
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/postgres");
        let migrations = std::fs::read_dir(folder).unwrap().count();
        assert_eq!(
            Server::shared().sql(&url, applied),
            format!("{migrations}|{migrations}")
        );
        let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' \
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        assert_eq!(Server::shared().sql(&url, locks), "0");
    }
}

#[tokio::test]
async fn services_on_one_database_have_each_their_own_sessions() {
    let url = Server::shared().database();
    let one = open(&url, "one").await.unwrap();
    let two = open(&url, "two").await.unwrap();
    one.put(&record("t", "a")).await.unwrap();
    let other = sandbox_store::SessionRecord {
        created_at: Timestamp(77),
        ..record("t", "a")
    };
    two.put(&other).await.unwrap();
    two.touch(&[(key("t", "a"), Timestamp(5))]).await.unwrap();
    one.add_artifacts(&[artifact("x", "t", "a", 1)])
        .await
        .unwrap();
    assert_eq!(one.load().await.unwrap(), [record("t", "a")]);
    assert_eq!(two.load().await.unwrap(), [other]);
    two.remove(&key("t", "a")).await.unwrap();
    two.remove_session_artifacts(&key("t", "a")).await.unwrap();
    two.remove_artifacts(&["x".into()]).await.unwrap();
    assert_eq!(one.load().await.unwrap(), [record("t", "a")]);
    assert_eq!(two.find_artifact("x").await.unwrap(), None);
    assert!(one.find_artifact("x").await.unwrap().is_some());
    // What is a tenant's, not a workspace's, is seen by both.
    one.append(&entries([1])).await.unwrap();
    let seen = two.newest(&Default::default(), None, 9).await.unwrap();
    assert_eq!(seen, entries([1]));
}

#[tokio::test]
async fn of_claims_by_two_services_one_wins() {
    let url = Server::shared().database();
    let one = PostgresStore::connect(&url).await.unwrap();
    let two = PostgresStore::connect(&url).await.unwrap();
    for n in 0..50 {
        let tenant = "t".parse().unwrap();
        let name = format!("run-{n}").parse().unwrap();
        let claim = async |store: &PostgresStore, request| {
            let claimed =
                sandbox_store::ExecutionStore::claim(store, &tenant, &name, request, Timestamp(1));
            claimed.await.unwrap()
        };
        let answers = futures::join!(claim(&one, "1"), claim(&two, "2"));
        let lost: Vec<_> = [&answers.0, &answers.1].into_iter().flatten().collect();
        assert_eq!(lost.len(), 1, "{answers:?}");
        let winner = if answers.0.is_none() { "1" } else { "2" };
        assert_eq!(lost[0], winner);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_server_is_ridden_out() {
    let server = Server::start();
    let store = PostgresStore::connect(&server.database()).await.unwrap();
    // As many idle connections as the pool has, all of which break.
    let many: Vec<_> = (0..20).map(|n| record("t", &n.to_string())).collect();
    try_join_all(many.iter().map(|record| store.put(record)))
        .await
        .unwrap();
    server.stop();
    let begun = Instant::now();
    let error = store.ping().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    // Made while it is down, done when it is up.
    let batch = entries(0..5);
    let (append, ()) = futures::join!(store.append(&batch), async {
        tokio::task::block_in_place(|| server.resume());
    });
    append.unwrap();
    store.ping().await.unwrap();
    assert_eq!(all(&store).await, batch);
    assert_eq!(store.load().await.unwrap().len(), many.len());
    // And when it broke unnoticed.
    server.stop();
    server.resume();
    store.append(&entries(5..9)).await.unwrap();
    assert_eq!(all(&store).await, entries(0..9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_under_way_when_the_server_stops_are_made_again() {
    let server = Server::start();
    let store = PostgresStore::connect(&server.database()).await.unwrap();
    let store = std::sync::Arc::new(store);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let workers: Vec<_> = (0..6_u32)
        .map(|worker| {
            let (store, stop) = (store.clone(), stop.clone());
            tokio::spawn(async move {
                let mut done = 0;
                while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                    let first = worker * 100_000 + done * 300;
                    store.append(&entries(first..first + 300)).await.unwrap();
                    done += 1;
                }
                done
            })
        })
        .collect();
    tokio::task::block_in_place(|| {
        for _ in 0..3 {
            server.stop();
            server.resume();
        }
    });
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut made = 0;
    for worker in workers {
        made += worker.await.unwrap() * 300;
    }
    assert_eq!(all(store.as_ref()).await.len(), made as usize);
}

#[tokio::test]
async fn calls_that_were_given_up_do_not_hold_the_others() {
    let url = Server::shared().database();
    let store = PostgresStore::connect(&url).await.unwrap();
    let mut holder = PgConnection::connect(&url).await.unwrap();
    let lock = "BEGIN; LOCK TABLE audit";
    holder.execute(lock).await.unwrap();
    let given_up = join_all((0..20).map(|n| {
        let store = &store;
        async move {
            let records = entries([n]);
            let append = store.append(&records);
            tokio::time::timeout(Duration::from_millis(500), append).await
        }
    }));
    assert!(given_up.await.iter().all(Result::is_err));
    // None of the connections is left in the wait for the lock.
    store.put(&record("t", "a")).await.unwrap();
    holder.execute("ROLLBACK").await.unwrap();
    store.append(&entries(0..20)).await.unwrap();
    assert_eq!(all(&store).await, entries(0..20));
}

#[tokio::test]
async fn a_server_that_stays_away_is_an_error_in_time() {
    let server = Server::start();
    let store = PostgresStore::connect(&server.database()).await.unwrap();
    server.stop();
    let begun = Instant::now();
    let calls = join_all((0..20).map(|n| {
        let store = &store;
        async move { store.append(&entries([n])).await }
    }));
    for result in calls.await {
        assert_eq!(result.unwrap_err().code(), ErrorCode::Timeout);
    }
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_server_that_hangs_holds_no_call_beyond_its_deadline() {
    let server = Server::start();
    let store = PostgresStore::connect(&server.database()).await.unwrap();
    let warm = try_join_all((0..20).map(|_| store.ping()));
    warm.await.unwrap();
    server.signal_all("STOP");
    let begun = Instant::now();
    let pings = join_all((0..20).map(|_| store.ping()));
    for result in pings.await {
        assert_eq!(result.unwrap_err().code(), ErrorCode::Timeout);
    }
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    let error = store.append(&entries([1])).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    assert!(begun.elapsed() < LONG + Duration::from_secs(2));
    server.signal_all("CONT");
    store.append(&entries([1, 2])).await.unwrap();
    assert_eq!(all(&store).await, entries([1, 2]));
}

#[tokio::test]
async fn a_call_that_was_given_up_leaves_its_connections_sound() {
    let url = Server::shared().database();
    let store = PostgresStore::connect(&url).await.unwrap();
    for n in 0..40 {
        let records = entries(0..500);
        let mut append = Box::pin(store.append(&records));
        let limit = Duration::from_micros(100 * n);
        let _ = tokio::time::timeout(limit, &mut append).await;
    }
    let records = entries(0..500);
    store.append(&records).await.unwrap();
    assert_eq!(all(&store).await, records);
}

#[tokio::test]
async fn a_password_is_in_no_error() {
    let server = Server::shared();
    let url = server.url("no_such_database");
    let wrong = url.replace(PASSWORD, "wr0ng-word");
    for url in [url, wrong] {
        let error = match PostgresStore::connect(&url).await {
            Ok(_) => panic!("`{url}` was opened"),
            Err(error) => error,
        };
        assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
        let mut text = format!("{error:?} {error}");
        let mut source = error.source();
        while let Some(error) = source {
            text += &format!(" {error} {error:?}");
            source = error.source();
        }
        assert!(text.contains("@127.0.0.1:"), "{text}");
        assert!(
            !text.contains(PASSWORD) && !text.contains("wr0ng"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_connection_is_encrypted_to_whom_the_certificate_names() {
    let server = Server::start_encrypted();
    let url = server.database();
    let trusted = server.certificate();
    let with = |url: &str, certificate: &std::path::Path| {
        let certificate = certificate.display();
        format!("{url}?sslmode=verify-full&application_name=tls&sslrootcert={certificate}")
    };
    let store = PostgresStore::connect(&with(&url, &trusted)).await.unwrap();
    store.ping().await.unwrap();
    let encrypted = "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name = 'tls'";
    assert_eq!(server.sql(&url, encrypted), "t");

    let another = Server::start_encrypted();
    let by_name = url.replace("127.0.0.1", "localhost");
    let plain = format!("{}?sslmode=require", Server::shared().database());
    for refused in [
        with(&url, &another.certificate()),
        with(&by_name, &trusted),
        plain,
    ] {
        let connected = PostgresStore::connect(&refused).await;
        assert!(connected.is_err(), "`{refused}` was opened");
    }
}
