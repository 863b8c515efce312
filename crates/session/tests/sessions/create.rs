//! A session is made on its first call, once.

use std::sync::atomic::Ordering;

use futures::future::join_all;
use sandbox_core::{ErrorCode, NetworkPolicy, Timestamp};
use sandbox_session::{SessionSettings, SessionState};

use crate::support::{IDLE, World, code, ended, key, settings, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_first_calls_at_once_make_one_sandbox() {
    let world = World::with(SessionSettings {
        queued_runs_per_session: 200,
        ..settings()
    })
    .await;
    let key = key("t", "s");
    let runs: Vec<_> = (0..200)
        .map(|n| world.start_run(&key, &["echo", &n.to_string()]))
        .collect();
    let reports = join_all(runs.into_iter().map(ended)).await;
    let mut created = 0;
    for (n, report) in reports.into_iter().enumerate() {
        let report = report.unwrap();
        assert_eq!(report.outcome.stdout.to_text(), n.to_string());
        created += usize::from(report.place.session_created);
    }
    assert_eq!((created, world.creates()), (1, 1));
    assert_eq!(world.keys(), ["t/s"]);
    assert_eq!(world.rows().await, ["t/s"]);
    world.backend.assert_sound();
}

#[tokio::test]
async fn tenants_with_the_same_session_id_have_sandboxes_of_their_own() {
    let world = World::new().await;
    let (ours, theirs) = (key("a", "s"), key("b", "s"));
    world.write(&ours, "secret", "x").await.unwrap();
    assert_eq!(world.read(&theirs, "secret").await, None);
    assert_eq!(world.read(&ours, "secret").await.as_deref(), Some("x"));
    assert_eq!(world.creates(), 2);
}

#[tokio::test]
async fn a_caller_who_goes_away_leaves_a_whole_session() {
    let world = World::new().await;
    let key = key("t", "s");
    world.backend.creating.close();
    let run = world.start_run(&key, &["echo"]);
    until("the sandbox is being made", || world.creates() == 1).await;
    assert_eq!(world.state(&key), Some(SessionState::Starting));
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    world.backend.creating.open();
    world.until_state(&key, Some(SessionState::Running)).await;
    assert!(
        !world
            .run(&key, &["echo"])
            .await
            .unwrap()
            .place
            .session_created
    );
    assert_eq!(world.creates(), 1);
}

#[tokio::test]
async fn a_failed_start_is_told_to_all_who_wait_and_the_next_call_tries_anew() {
    let world = World::new().await;
    let key = key("t", "s");
    world.backend.creating.close();
    world.backend.failing_creates.store(1, Ordering::SeqCst);
    let waiting: Vec<_> = (0..5).map(|_| world.start_run(&key, &["echo"])).collect();
    until("all wait", || World::get(&world.backend.creates) == 1).await;
    tokio::task::yield_now().await;
    world.backend.creating.open();
    for run in waiting {
        let error = ended(run).await.unwrap_err();
        assert_eq!(
            (error.code(), error.detail()),
            (ErrorCode::BackendUnavailable, "not today")
        );
    }
    assert!(
        world
            .run(&key, &["echo"])
            .await
            .unwrap()
            .place
            .session_created
    );
    assert_eq!(world.creates(), 2);
    world.backend.assert_sound();
}

#[tokio::test]
async fn a_failed_first_start_leaves_nothing() {
    let world = World::new().await;
    let key = key("t", "s");
    world.backend.failing_creates.store(1, Ordering::SeqCst);
    assert_eq!(
        code(world.run(&key, &["echo"]).await),
        ErrorCode::BackendUnavailable
    );
    world.until_state(&key, None).await;
    assert!(!world.backend.has_workspace(&key));
    assert_eq!(world.rows().await, Vec::<String>::new());
    world.assert_all_gone();
}

#[tokio::test]
async fn a_session_that_cannot_be_registered_is_not_made() {
    let world = World::new().await;
    let key = key("t", "s");
    world.store.broken.store(true, Ordering::SeqCst);
    let error = world.run(&key, &["echo"]).await.unwrap_err();
    assert_eq!(
        (error.code(), error.detail()),
        (ErrorCode::Internal, "internal error")
    );
    world.store.broken.store(false, Ordering::SeqCst);
    world.until_state(&key, None).await;
    assert_eq!(world.backend.workspaces(), 0);
    world.assert_all_gone();
    assert!(
        world
            .run(&key, &["echo"])
            .await
            .unwrap()
            .place
            .session_created
    );
}

#[tokio::test]
async fn only_the_first_call_of_a_session_touches_the_registry() {
    let world = World::new().await;
    let key = key("t", "s");
    world.run(&key, &["echo"]).await.unwrap();
    let calls = World::get(&world.store.calls);
    for _ in 0..20 {
        world.run(&key, &["echo"]).await.unwrap();
        world.write(&key, "a", "b").await.unwrap();
    }
    // One of them may have been the background's.
    assert!(World::get(&world.store.calls) <= calls + 1);
}

#[tokio::test]
async fn what_the_backend_cannot_do_is_refused_before_anything_is_made() {
    let mut settings = settings();
    settings.spec.network = NetworkPolicy::AllowAll;
    let world = World::with(settings).await;
    world.run(&key("t", "able"), &["echo"]).await.unwrap();
    world.backend.forgets_network.store(true, Ordering::SeqCst);
    let error = world.run(&key("t", "s"), &["echo"]).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
    assert!(error.detail().contains("network"), "{}", error.detail());
    assert_eq!(world.creates(), 1);
    assert_eq!(world.keys(), ["t/able"]);
}

#[tokio::test]
async fn a_session_shows_what_it_is() {
    let world = World::with(SessionSettings {
        ttl: Some(IDLE * 2),
        ..settings()
    })
    .await;
    let key = key("t", "s");
    assert_eq!(world.sessions.get(&key), None);
    world.clock.advance(IDLE);
    world.run(&key, &["echo"]).await.unwrap();
    let running = world.start_run(&key, &["waits"]);
    world.until_running(1).await;
    let info = world.sessions.get(&key).unwrap();
    let now = Timestamp(0).plus(IDLE);
    assert_eq!((info.created, info.last_used), (now, now));
    assert_eq!(info.expires, Some(now.plus(IDLE)));
    assert_eq!((info.state, info.backend), (SessionState::Running, "fake"));
    assert_eq!((info.active_runs, info.queued_runs), (1, 0));
    assert_eq!(info.usage.memory_bytes, Some(4096));
    assert_eq!(info.spec, settings().spec);
    world.backend.gate.add_permits(1);
    ended(running).await.unwrap();
    world.clock.advance(IDLE / 2);
    world.run(&key, &["echo"]).await.unwrap();
    let info = world.sessions.get(&key).unwrap();
    assert_eq!(info.last_used, now.plus(IDLE / 2));
    assert_eq!(info.expires, Some(now.plus(IDLE / 2).plus(IDLE)));
    world.clock.advance(IDLE * 3 / 4);
    world.run(&key, &["echo"]).await.unwrap();
    let info = world.sessions.get(&key).unwrap();
    assert_eq!(info.expires, Some(now.plus(IDLE * 2)));
}
