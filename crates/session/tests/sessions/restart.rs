//! What is left after the service was stopped, or killed.

use std::{sync::atomic::Ordering, time::Duration};

use sandbox_core::{NetworkPolicy, SandboxSpec, SessionOptions, Timestamp};
use sandbox_session::{CreatedBy, NewSession, SessionSettings, SessionState};
use sandbox_store::{SessionRecord, SessionStore as _};

use crate::support::{IDLE, World, key, settings, until};

async fn stopped(world: &World) {
    world.sessions.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn sessions_go_on_with_their_workspace_age_and_limits() {
    let before = World::with(SessionSettings {
        ttl: Some(IDLE * 3),
        ..settings()
    })
    .await;
    let key = key("t", "s");
    before.write(&key, "a", "kept").await.unwrap();
    before.clock.advance(IDLE / 2);
    before.run(&key, &["echo"]).await.unwrap();
    stopped(&before).await;
    before.assert_all_gone();

    let mut changed = settings();
    changed.spec.limits.pids = 7;
    changed.idle_timeout = IDLE * 9;
    let world = before.restarted(changed).await;
    let info = world.sessions.get(&key).unwrap();
    assert_eq!(info.state, SessionState::Stopped);
    let used = Timestamp(0).plus(IDLE / 2);
    assert_eq!((info.created, info.last_used), (Timestamp(0), used));
    assert_eq!(info.expires, Some(used.plus(IDLE)));
    assert_eq!(info.spec, SandboxSpec::default());

    let report = world.run(&key, &["cat", "a"]).await.unwrap();
    assert_eq!(report.outcome.stdout.to_text(), "kept");
    assert!(report.place.session_created);
    assert_eq!(report.place.spec, SandboxSpec::default());
    let info = world.sessions.get(&key).unwrap();
    assert_eq!(info.created, Timestamp(0));
    world.backend.assert_sound();
}

#[tokio::test]
async fn workspaces_without_a_row_are_removed_and_rows_without_a_workspace_are_dropped() {
    let before = World::new().await;
    let (kept, orphan, bare) = (key("t", "kept"), key("t", "orphan"), key("t", "bare"));
    before.run(&kept, &["echo"]).await.unwrap();
    before.run(&bare, &["echo"]).await.unwrap();
    stopped(&before).await;
    before.backend.leave_workspace(&orphan, "left");
    let bare_row = SessionRecord {
        key: key("t", "no-workspace"),
        sandbox_id: key("t", "no-workspace").sandbox_id(),
        ..before.store.load().await.unwrap()[0].clone()
    };
    before.store.put(&bare_row).await.unwrap();

    let world = before.restarted(settings()).await;
    assert_eq!(world.keys(), ["t/bare", "t/kept"]);
    assert_eq!(world.rows().await, ["t/bare", "t/kept"]);
    assert!(!world.backend.has_workspace(&orphan));
    assert!(world.backend.has_workspace(&kept));
}

#[tokio::test]
async fn rows_of_another_backend_are_left_alone() {
    let before = World::new().await;
    before.run(&key("t", "s"), &["echo"]).await.unwrap();
    stopped(&before).await;
    let theirs = SessionRecord {
        key: key("t", "theirs"),
        backend: "docker".into(),
        ..before.store.load().await.unwrap()[0].clone()
    };
    before.store.put(&theirs).await.unwrap();

    let world = before.restarted(settings()).await;
    assert_eq!(world.keys(), ["t/s"]);
    assert_eq!(world.rows().await, ["t/s", "t/theirs"]);
}

#[tokio::test]
async fn the_workspace_of_a_single_run_that_a_kill_left_is_removed() {
    let before = World::new().await;
    let alone = tokio::spawn({
        let world = before.clone();
        async move { world.run_alone("t", &["waits"]).await }
    });
    before.until_running(1).await;
    assert_eq!(before.rows().await, Vec::<String>::new());
    // The service is killed: its sandboxes die with it, their workspaces stay.
    let key = before.sessions.list()[0].key.clone();
    before.backend.failing_removes.store(9, Ordering::SeqCst);
    before.backend.kill(&key);
    assert!(alone.await.unwrap().is_err());
    assert_eq!(before.backend.workspaces(), 1);
    before.backend.failing_removes.store(0, Ordering::SeqCst);

    let world = before.restarted(settings()).await;
    assert_eq!(world.keys(), Vec::<String>::new());
    assert_eq!(world.backend.workspaces(), 0);
}

#[tokio::test]
async fn an_orphan_that_could_not_be_removed_is_never_served() {
    let before = World::new().await;
    let (key, other) = (key("t", "s"), key("t", "other"));
    stopped(&before).await;
    before.backend.leave_workspace(&key, "left");
    before.backend.leave_workspace(&other, "left");
    // Both at the start, and both in the background's first pass.
    before.backend.failing_removes.store(4, Ordering::SeqCst);

    let world = before.restarted(settings()).await;
    let failed = || World::get(&world.backend.failing_removes) == 0;
    until("the removals have failed", failed).await;
    assert_eq!(world.read(&key, "left").await, None);
    world.sessions.reap().await;
    assert!(!world.backend.has_workspace(&other));
    assert!(world.backend.has_workspace(&key));
    world.backend.assert_sound();
}

#[tokio::test]
async fn sessions_whose_time_passed_meanwhile_are_reaped() {
    let before = World::new().await;
    let key = key("t", "s");
    before.run(&key, &["echo"]).await.unwrap();
    stopped(&before).await;
    before.clock.advance(IDLE);
    let world = before.restarted(settings()).await;
    world.until_state(&key, None).await;
    assert_eq!(world.backend.workspaces(), 0);
    assert_eq!(world.rows().await, Vec::<String>::new());
}

#[tokio::test]
async fn more_sessions_than_are_allowed_now_go_the_longest_unused_first() {
    let before = World::new().await;
    for n in 0..4 {
        before
            .run(&key("t", &n.to_string()), &["echo"])
            .await
            .unwrap();
        before.clock.advance(Duration::from_secs(1));
    }
    stopped(&before).await;
    let world = before
        .restarted(SessionSettings {
            max_sessions: 2,
            ..settings()
        })
        .await;
    world.until_state(&key("t", "0"), None).await;
    world.until_state(&key("t", "1"), None).await;
    assert_eq!(world.keys(), ["t/2", "t/3"]);
}

#[tokio::test]
async fn a_sandbox_that_outlived_the_service_is_in_use_at_once() {
    let before = World::new().await;
    let (outlived, other) = (key("t", "outlived"), key("t", "other"));
    before.run(&outlived, &["echo"]).await.unwrap();
    before.run(&other, &["echo"]).await.unwrap();
    stopped(&before).await;
    let survivors = [outlived.sandbox_id()];
    before.backend.survivors.lock().unwrap().extend(survivors);

    let world = before.restarted(settings()).await;
    until("it runs, though nobody has called", || {
        world.sessions.get(&outlived).unwrap().state == SessionState::Running
    })
    .await;
    let info = world.sessions.get(&other).unwrap();
    assert_eq!(info.state, SessionState::Stopped);
    assert_eq!(world.backend.alive.load(Ordering::SeqCst), 1);
    world.backend.assert_sound();
}

#[tokio::test]
async fn a_survivor_that_may_not_be_any_more_ends_and_its_files_stay() {
    let before = World::new().await;
    let key = key("t", "s");
    let spec = SandboxSpec {
        network: NetworkPolicy::AllowAll,
        ..SandboxSpec::default()
    };
    let new = NewSession {
        spec,
        options: SessionOptions::default(),
        idle_timeout: None,
        ttl: None,
        files: vec![],
        by: CreatedBy {
            subject: "ada".into(),
            request_id: None,
        },
    };
    before.sessions.create(&key, &new).await.unwrap();
    before.write(&key, "f", "kept").await.unwrap();
    stopped(&before).await;
    let survivors = || before.backend.survivors.lock().unwrap();
    survivors().insert(key.sandbox_id());
    before.backend.forgets_network.store(true, Ordering::SeqCst);

    let world = before.restarted(settings()).await;
    until("it has ended", || survivors().is_empty()).await;
    let info = world.sessions.get(&key).unwrap();
    assert_eq!(info.state, SessionState::Stopped);
    before
        .backend
        .forgets_network
        .store(false, Ordering::SeqCst);
    assert_eq!(world.read(&key, "f").await.as_deref(), Some("kept"));
}

#[tokio::test]
async fn survivors_beyond_the_ceiling_end() {
    let before = World::new().await;
    let keys = ["a", "b", "c"].map(|session| key("t", session));
    for key in &keys {
        before.run(key, &["echo"]).await.unwrap();
    }
    stopped(&before).await;
    let survivors = keys.iter().map(|key| key.sandbox_id());
    before.backend.survivors.lock().unwrap().extend(survivors);

    let fewer = SessionSettings {
        max_sessions: 2,
        ..settings()
    };
    let world = before.restarted(fewer).await;
    until("two run, and of the third nothing is left", || {
        world.sessions.list().len() == 2
            && world.backend.alive.load(Ordering::SeqCst) == 2
            && world.backend.workspaces() == 2
    })
    .await;
    world.backend.assert_sound();
}
