//! A sandbox that died is replaced, and its workspace stays.

use std::sync::atomic::Ordering;

use sandbox_core::{ErrorCode, Timestamp};
use sandbox_session::SessionState;

use crate::support::{IDLE, World, code, ended, key, until};

#[tokio::test]
async fn a_dead_sandbox_is_replaced_with_its_workspace_intact() {
    let world = World::new().await;
    let key = key("t", "s");
    world.write(&key, "a", "kept").await.unwrap();
    world.kill(&key).await;
    world.clock.advance(IDLE / 2);
    let report = world.run(&key, &["cat", "a"]).await.unwrap();
    assert_eq!(report.outcome.stdout.to_text(), "kept");
    assert!(report.place.session_created);
    assert!(
        !world
            .run(&key, &["echo"])
            .await
            .unwrap()
            .place
            .session_created
    );
    assert_eq!(world.sessions.get(&key).unwrap().created, Timestamp(0));
    assert_eq!(world.creates(), 2);
    until("the loss is told", || {
        world.notes.destroyed() == [("lost", 1)]
    })
    .await;
    world.backend.assert_sound();
}

#[tokio::test]
async fn a_sandbox_that_dies_during_a_run_is_lost_for_it_and_the_code_runs_once() {
    let world = World::new().await;
    let key = key("t", "s");
    world.write(&key, "a", "kept").await.unwrap();
    assert_eq!(
        code(world.run(&key, &["dies", "once"]).await),
        ErrorCode::SandboxLost
    );
    assert_eq!(world.state(&key), Some(SessionState::Stopped));
    assert_eq!(world.backend.runs(), ["once"]);
    assert_eq!(world.read(&key, "a").await.as_deref(), Some("kept"));
    world.backend.assert_sound();
}

#[tokio::test]
async fn a_guest_that_answers_nonsense_is_stopped_and_replaced() {
    let world = World::new().await;
    let key = key("t", "s");
    let other = world.start_run(&key, &["waits"]);
    world.until_running(1).await;
    assert_eq!(
        code(world.run(&key, &["breaks"]).await),
        ErrorCode::SandboxLost
    );
    // Its connection was fine, so somebody has to end it.
    assert_eq!(world.state(&key), Some(SessionState::Stopped));
    assert_eq!(code(ended(other).await), ErrorCode::SandboxLost);
    until("it is gone", || World::get(&world.backend.alive) == 0).await;
    assert!(
        world
            .run(&key, &["echo"])
            .await
            .unwrap()
            .place
            .session_created
    );
    world.backend.assert_sound();
}

#[tokio::test]
async fn a_run_that_waited_for_its_turn_gets_the_new_sandbox() {
    let world = World::new().await;
    let key = key("t", "s");
    let running: Vec<_> = (0..4).map(|_| world.start_run(&key, &["waits"])).collect();
    world.until_running(4).await;
    let waiting = world.start_run(&key, &["echo", "hello"]);
    until("one waits", || {
        world.sessions.get(&key).unwrap().queued_runs == 1
    })
    .await;
    world.backend.kill(&key);
    for run in running {
        assert_eq!(code(ended(run).await), ErrorCode::SandboxLost);
    }
    let report = ended(waiting).await.unwrap();
    assert_eq!(report.outcome.stdout.to_text(), "hello");
    assert!(report.place.session_created);
    assert_eq!(world.creates(), 2);
}

#[tokio::test]
async fn many_calls_after_a_death_make_one_sandbox() {
    let world = World::new().await;
    let key = key("t", "s");
    world.run(&key, &["echo"]).await.unwrap();
    world.kill(&key).await;
    let runs: Vec<_> = (0..30).map(|_| world.start_run(&key, &["echo"])).collect();
    let mut created = 0;
    for run in runs {
        created += usize::from(ended(run).await.unwrap().place.session_created);
    }
    assert_eq!((created, world.creates()), (1, 2));
}

#[tokio::test]
async fn a_replacement_that_fails_keeps_the_workspace() {
    let world = World::new().await;
    let key = key("t", "s");
    world.write(&key, "a", "kept").await.unwrap();
    world.kill(&key).await;
    world.backend.failing_creates.store(1, Ordering::SeqCst);
    assert_eq!(
        code(world.run(&key, &["echo"]).await),
        ErrorCode::BackendUnavailable
    );
    assert_eq!(world.state(&key), Some(SessionState::Stopped));
    assert_eq!(world.read(&key, "a").await.as_deref(), Some("kept"));
    assert_eq!(world.rows().await, ["t/s"]);
}

#[tokio::test]
async fn nothing_is_made_while_the_one_before_may_still_run() {
    let world = World::new().await;
    let key = key("t", "s");
    world.run(&key, &["echo"]).await.unwrap();
    // Neither its watch nor the next call can stop it.
    world.backend.failing_stops.store(2, Ordering::SeqCst);
    assert_eq!(
        code(world.run(&key, &["breaks"]).await),
        ErrorCode::SandboxLost
    );
    until("its watch has tried", || {
        World::get(&world.backend.stops) == 1
    })
    .await;
    assert_eq!(code(world.run(&key, &["echo"]).await), ErrorCode::Internal);
    assert_eq!(world.creates(), 1);
    assert!(
        world
            .run(&key, &["echo"])
            .await
            .unwrap()
            .place
            .session_created
    );
    world.backend.assert_sound();
}

#[tokio::test]
async fn a_stopped_session_can_be_deleted() {
    let world = World::new().await;
    let key = key("t", "s");
    world.write(&key, "a", "b").await.unwrap();
    world.kill(&key).await;
    assert!(world.sessions.delete(&key).await.unwrap());
    assert!(!world.backend.has_workspace(&key));
    assert_eq!(world.rows().await, Vec::<String>::new());
    world.assert_all_gone();
}
