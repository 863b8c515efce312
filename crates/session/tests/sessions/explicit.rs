//! Sessions that are made before their first call, as somebody asked for them.

use std::time::Duration;

use futures::future::join_all;
use sandbox_core::{ByteSize, ErrorCode, Limits, SandboxSpec, SessionOptions, Timestamp};
use sandbox_session::{CreatedBy, NewSession};

use crate::support::{REFUSED, World, code, file, key, settings, until};

fn new(hash: &str) -> NewSession {
    NewSession {
        spec: SandboxSpec {
            env: [("NAME".to_owned(), "value".to_owned())].into(),
            limits: Limits {
                memory: ByteSize::mib(64),
                ..Limits::default()
            },
            ..SandboxSpec::default()
        },
        options: SessionOptions {
            labels: [("team".to_owned(), "red".to_owned())].into(),
            run_timeout: Some(Duration::from_secs(7)),
            request_sha256: Some(hash.into()),
            ..SessionOptions::default()
        },
        idle_timeout: Some(Duration::from_secs(60)),
        ttl: Some(Duration::from_secs(600)),
        files: vec![file("a", "one"), file("b", "two")],
        by: CreatedBy {
            subject: "ada".into(),
            request_id: None,
        },
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_same_requests_at_once_make_one_session() {
    let world = World::new().await;
    let key = key("t", "s");
    let (first, other) = (new("1"), new("2"));
    let all = (0..100).map(|_| world.sessions.create(&key, &first));
    let fresh: Vec<bool> = join_all(all)
        .await
        .into_iter()
        .map(|made| made.unwrap())
        .collect();
    assert_eq!(fresh.iter().filter(|fresh| **fresh).count(), 1);
    assert_eq!(world.creates(), 1);
    assert_eq!(
        code(world.sessions.create(&key, &other).await),
        ErrorCode::SessionExists
    );
    assert_eq!(world.read(&key, "a").await.as_deref(), Some("one"));
    assert_eq!(world.read(&key, "b").await.as_deref(), Some("two"));
    let info = world.sessions.get(&key).unwrap();
    assert_eq!((&info.spec, &info.options), (&first.spec, &first.options));
    assert_eq!(info.ends, Some(Timestamp(600_000)));
    assert_eq!(info.expires, Some(Timestamp(60_000)));
    assert_eq!(
        world.sessions.run_timeout(&key),
        Some(Duration::from_secs(7))
    );
    until("it is told", || !world.notes.sessions().is_empty()).await;
    assert_eq!(world.notes.sessions(), [(key, "asked for")]);
}

#[tokio::test]
async fn a_session_of_a_first_call_is_what_nothing_in_particular_makes() {
    let world = World::new().await;
    let key = key("t", "s");
    world.run(&key, &["echo"]).await.unwrap();
    let mut usual = new("");
    usual.options = SessionOptions::default();
    assert!(!world.sessions.create(&key, &usual).await.unwrap());
    assert_eq!(
        code(world.sessions.create(&key, &new("1")).await),
        ErrorCode::SessionExists
    );
    assert_eq!(world.sessions.run_timeout(&key), None);
}

#[tokio::test]
async fn what_was_chosen_survives_a_restart() {
    let before = World::new().await;
    let key = key("t", "s");
    let asked = new("1");
    assert!(before.sessions.create(&key, &asked).await.unwrap());
    before.sessions.shutdown(Duration::ZERO).await;

    let world = before.restarted(settings()).await;
    let info = world.sessions.get(&key).unwrap();
    assert_eq!((&info.spec, &info.options), (&asked.spec, &asked.options));
    assert_eq!(info.idle_timeout, Duration::from_secs(60));
    assert_eq!(info.ends, Some(Timestamp(600_000)));
    // The same request is known again, and its files are not written a second time.
    world.write(&key, "a", "changed").await.unwrap();
    assert!(!world.sessions.create(&key, &asked).await.unwrap());
    assert_eq!(world.read(&key, "a").await.as_deref(), Some("changed"));
    assert_eq!(
        code(world.sessions.create(&key, &new("2")).await),
        ErrorCode::SessionExists
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_written_leaves_no_session() {
    let world = World::new().await;
    let key = key("t", "s");
    let mut asked = new("1");
    asked.files.push(file(REFUSED, "x"));
    let error = world.sessions.create(&key, &asked).await.unwrap_err();
    assert!(error.detail().starts_with("`files[2]`: "), "{error}");
    world.until_state(&key, None).await;
    assert!(!world.backend.has_workspace(&key));
    assert_eq!(world.rows().await, Vec::<String>::new());
    world.assert_all_gone();
    asked.files.pop();
    assert!(world.sessions.create(&key, &asked).await.unwrap());
}

#[tokio::test]
async fn its_own_times_end_a_session_and_no_other() {
    let world = World::new().await;
    let (asked, usual) = (key("t", "asked"), key("t", "usual"));
    assert!(world.sessions.create(&asked, &new("1")).await.unwrap());
    world.write(&usual, "a", "b").await.unwrap();
    world.clock.advance(Duration::from_secs(59));
    world.sessions.reap().await;
    assert_eq!(world.keys(), ["t/asked", "t/usual"]);
    world.clock.advance(Duration::from_secs(1));
    world.sessions.reap().await;
    assert_eq!(world.keys(), ["t/usual"]);

    // Used all the time, it ends when it is too old.
    assert!(world.sessions.create(&asked, &new("1")).await.unwrap());
    for _ in 0..11 {
        world.clock.advance(Duration::from_secs(50));
        world.write(&asked, "a", "b").await.unwrap();
        world.sessions.reap().await;
    }
    assert_eq!(world.keys(), ["t/asked", "t/usual"]);
    world.clock.advance(Duration::from_secs(50));
    world.sessions.reap().await;
    assert_eq!(world.keys(), ["t/usual"]);
    assert_eq!(world.notes.destroyed(), [("idle", 1), ("ttl", 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_different_requests_at_once_one_wins_and_the_others_are_conflicts() {
    let world = World::new().await;
    let key = key("t", "s");
    let asked: Vec<NewSession> = (0..50).map(|n| new(&n.to_string())).collect();
    let all = asked.iter().map(|new| world.sessions.create(&key, new));
    let made = join_all(all).await;
    let won: Vec<usize> = (0..50).filter(|n| made[*n].is_ok()).collect();
    let [winner] = won[..] else {
        panic!("{won:?} were told that it is theirs");
    };
    let lost = made.into_iter().filter_map(Result::err);
    assert!(
        lost.map(|error| error.code())
            .all(|code| code == ErrorCode::SessionExists)
    );
    assert_eq!(world.creates(), 1);
    let info = world.sessions.get(&key).unwrap();
    assert_eq!(info.options, asked[winner].options);
}
