//! Sessions end when nobody uses them, or when they are too old.

use std::{sync::atomic::Ordering, time::Duration};

use sandbox_core::ErrorCode;
use sandbox_session::{SessionSettings, SessionState};
use sandbox_store::SessionStore as _;

use crate::support::{IDLE, World, ended, key, settings, until};

const MOMENT: Duration = Duration::from_millis(1);

#[tokio::test]
async fn an_idle_session_ends_at_its_time_and_not_before() {
    let world = World::new().await;
    let key = key("t", "s");
    world.write(&key, "a", "b").await.unwrap();
    world.clock.advance(IDLE - MOMENT);
    world.sessions.reap().await;
    assert_eq!(world.state(&key), Some(SessionState::Running));
    world.clock.advance(MOMENT);
    world.sessions.reap().await;
    assert_eq!(world.state(&key), None);
    assert_eq!(world.rows().await, Vec::<String>::new());
    assert!(!world.backend.has_workspace(&key));
    assert_eq!(world.notes.destroyed(), [("idle", 1)]);
    world.assert_all_gone();
}

#[tokio::test]
async fn a_sessions_beginning_and_end_are_told_once_each_and_one_runs_own_never() {
    let world = World::new().await;
    let (idle, deleted) = (key("t", "idle"), key("t", "deleted"));
    for _ in 0..2 {
        world.run(&idle, &["echo"]).await.unwrap();
    }
    world.write(&deleted, "a", "b").await.unwrap();
    world.run_alone("t", &["echo"]).await.unwrap();
    assert!(world.sessions.delete(&deleted).await.unwrap());
    world.clock.advance(IDLE);
    world.sessions.reap().await;
    let told = [
        (idle.clone(), "began"),
        (deleted.clone(), "began"),
        (deleted, "deleted"),
        (idle, "idle"),
    ];
    let count = told.len();
    until("sessions told", || world.notes.sessions().len() == count).await;
    assert_eq!(world.notes.sessions(), told);
}

#[tokio::test]
async fn a_call_puts_the_end_off() {
    let world = World::new().await;
    let key = key("t", "s");
    for _ in 0..5 {
        world.write(&key, "a", "b").await.unwrap();
        world.clock.advance(IDLE - MOMENT);
        world.sessions.reap().await;
    }
    assert_eq!(world.state(&key), Some(SessionState::Running));
}

#[tokio::test]
async fn a_run_and_a_held_lease_keep_a_session_and_their_end_starts_its_time() {
    let world = World::new().await;
    let (key, other) = (key("t", "s"), key("t", "other"));
    let run = world.start_run(&key, &["waits"]);
    world.until_running(1).await;
    let lease = world.sessions.lease(&other).await.unwrap();
    assert!(lease.created());
    world.clock.advance(IDLE * 4);
    world.sessions.reap().await;
    assert_eq!(world.keys(), ["t/other", "t/s"]);
    lease.guest().health().await.unwrap();
    drop(lease);
    world.backend.gate.add_permits(1);
    ended(run).await.unwrap();
    world.clock.advance(IDLE - MOMENT);
    world.sessions.reap().await;
    assert_eq!(world.keys(), ["t/other", "t/s"]);
    world.clock.advance(MOMENT);
    world.sessions.reap().await;
    assert_eq!(world.keys(), Vec::<String>::new());
    world.assert_all_gone();
}

#[tokio::test]
async fn a_session_that_is_too_old_ends_with_what_runs_in_it() {
    let world = World::with(SessionSettings {
        ttl: Some(IDLE * 2),
        ..settings()
    })
    .await;
    let key = key("t", "s");
    let run = world.start_run(&key, &["waits"]);
    world.until_running(1).await;
    world.clock.advance(IDLE * 2 - MOMENT);
    world.sessions.reap().await;
    assert_eq!(world.state(&key), Some(SessionState::Running));
    world.clock.advance(MOMENT);
    world.sessions.reap().await;
    let error = ended(run).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SessionDeleted);
    assert!(error.detail().contains("time to live"), "{error}");
    assert_eq!(world.notes.destroyed(), [("ttl", 1)]);
    world.assert_all_gone();
}

#[tokio::test]
async fn a_call_after_the_end_that_nobody_reaped_yet_gets_a_fresh_session() {
    let world = World::new().await;
    let key = key("t", "s");
    world.write(&key, "old", "x").await.unwrap();
    world.clock.advance(IDLE);
    assert_eq!(world.read(&key, "old").await, None);
    assert_eq!(world.creates(), 2);
    assert_eq!(world.notes.destroyed(), [("idle", 1)]);
}

#[tokio::test]
async fn a_stopped_session_ends_too() {
    let world = World::new().await;
    let key = key("t", "s");
    world.run(&key, &["echo"]).await.unwrap();
    world.kill(&key).await;
    world.clock.advance(IDLE);
    world.sessions.reap().await;
    assert_eq!(world.state(&key), None);
    assert_eq!(world.backend.workspaces(), 0);
    world.assert_all_gone();
}

#[tokio::test]
async fn the_background_reaps_by_itself() {
    let world = World::with(SessionSettings {
        reap_interval: Duration::from_millis(10),
        ..settings()
    })
    .await;
    let key = key("t", "s");
    world.run(&key, &["echo"]).await.unwrap();
    world.clock.advance(IDLE);
    world.until_state(&key, None).await;
}

#[tokio::test]
async fn the_time_of_use_is_written_later_and_again_when_it_could_not_be() {
    let world = World::new().await;
    let key = key("t", "s");
    world.run(&key, &["echo"]).await.unwrap();
    world.store.broken.store(true, Ordering::SeqCst);
    world.clock.advance(IDLE / 2);
    world.run(&key, &["echo"]).await.unwrap();
    let calls = World::get(&world.store.calls);
    // The background tries while the registry is broken.
    let tried = || World::get(&world.store.calls) > calls;
    until("a write was tried", tried).await;
    world.store.broken.store(false, Ordering::SeqCst);
    world.sessions.shutdown(Duration::ZERO).await;
    let rows = world.store.load().await.unwrap();
    assert_eq!(rows[0].last_used_at.0, (IDLE / 2).as_millis() as i64);
}
