//! The registry of sessions.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use sandbox_core::{
    ByteSize, E2bOptions, Limits, NetworkPolicy, OnEnd, SandboxSpec, SessionKey, SessionOptions,
    Timestamp,
};
use sandbox_store::{SessionRecord, SessionStore};

pub fn key(tenant: &str, session: &str) -> SessionKey {
    SessionKey::new(tenant.parse().unwrap(), session.parse().unwrap())
}

pub fn record(tenant: &str, session: &str) -> SessionRecord {
    SessionRecord {
        key: key(tenant, session),
        sandbox_id: key(tenant, session).sandbox_id(),
        backend: "local".into(),
        spec: SandboxSpec {
            image: Some("worker".into()),
            env: BTreeMap::from([("NAME".into(), "ä=\"'".into())]),
            network: NetworkPolicy::AllowAll,
            limits: Limits {
                cpus: 0.5,
                memory: ByteSize(1000),
                ..Limits::default()
            },
        },
        options: SessionOptions {
            labels: BTreeMap::from([("team".into(), "ä=\"'".into())]),
            run_timeout: Some(Duration::from_millis(1_500)),
            request_sha256: Some("00".into()),
            on_end: OnEnd::Pause,
            e2b: Some(E2bOptions {
                template: "base".into(),
                token_salt: "00".into(),
                auto_resume: true,
                public_traffic: false,
            }),
        },
        created_at: Timestamp(1_000),
        last_used_at: Timestamp(2_000),
        idle_timeout: Duration::from_millis(900_001),
        expires_at: Some(Timestamp(3_000)),
        paused_at: Some(Timestamp(2_500)),
    }
}

pub async fn a_record_comes_back_as_it_was_put(store: &dyn SessionStore) {
    assert_eq!(store.load().await.unwrap(), vec![]);
    let for_ever = SessionRecord {
        expires_at: None,
        ..record("t", "b")
    };
    store.put(&for_ever).await.unwrap();
    store.put(&record("t", "a")).await.unwrap();
    store.put(&record("s", "c")).await.unwrap();
    assert_eq!(
        store.load().await.unwrap(),
        vec![record("s", "c"), record("t", "a"), for_ever]
    );
}

pub async fn a_second_put_takes_the_place_of_the_first(store: &dyn SessionStore) {
    store.put(&record("t", "a")).await.unwrap();
    let changed = SessionRecord {
        sandbox_id: "0123456789abcdef0123456789abcdef".parse().unwrap(),
        backend: "docker".into(),
        spec: SandboxSpec::default(),
        options: SessionOptions::default(),
        created_at: Timestamp(7),
        last_used_at: Timestamp(8),
        idle_timeout: Duration::ZERO,
        expires_at: None,
        paused_at: None,
        ..record("t", "a")
    };
    store.put(&changed).await.unwrap();
    assert_eq!(store.load().await.unwrap(), vec![changed]);
}

pub async fn ids_that_would_meet_when_joined_are_apart(store: &dyn SessionStore) {
    let records = [record("a", "b-c"), record("a-b", "c"), record("A", "b-c")];
    for record in &records {
        store.put(record).await.unwrap();
    }
    assert_eq!(store.load().await.unwrap().len(), records.len());
    store.remove(&key("a", "b-c")).await.unwrap();
    assert_eq!(
        store.load().await.unwrap(),
        vec![record("A", "b-c"), record("a-b", "c")]
    );
}

pub async fn a_touch_sets_the_time_of_known_sessions(store: &dyn SessionStore) {
    store.put(&record("t", "a")).await.unwrap();
    store.put(&record("t", "b")).await.unwrap();
    store.touch(&[]).await.unwrap();
    let used = [
        (key("t", "a"), Timestamp(5_000)),
        (key("t", "unknown"), Timestamp(6_000)),
    ];
    store.touch(&used).await.unwrap();
    let earlier = [(key("t", "a"), Timestamp(4_000))];
    store.touch(&earlier).await.unwrap();
    let touched = SessionRecord {
        last_used_at: Timestamp(5_000),
        ..record("t", "a")
    };
    assert_eq!(store.load().await.unwrap(), vec![touched, record("t", "b")]);
}

pub async fn removing_what_is_not_there_succeeds(store: &dyn SessionStore) {
    store.put(&record("t", "a")).await.unwrap();
    store.remove(&key("t", "a")).await.unwrap();
    store.remove(&key("t", "a")).await.unwrap();
    assert_eq!(store.load().await.unwrap(), vec![]);
}

pub async fn calls_at_the_same_time_all_succeed(store: &dyn SessionStore) {
    let records: Vec<_> = (0..60).map(|n| record("t", &format!("{n:02}"))).collect();
    let put = join_all(records.iter().map(|record| store.put(record)));
    let again = join_all(records.iter().map(|record| store.put(record)));
    let pings = join_all((0..20).map(|_| store.ping()));
    let (put, again, pings) = futures::join!(put, again, pings);
    for result in put.into_iter().chain(again).chain(pings) {
        result.unwrap();
    }
    assert_eq!(store.load().await.unwrap(), records);
}
