//! The service stops: no sandbox is left, and every session can go on.

use std::time::Duration;

use sandbox_core::ErrorCode;
use sandbox_session::{SessionSettings, SessionState};

use crate::support::{World, code, ended, key, settings, until};

const LONG: Duration = Duration::from_secs(60);

fn stop(world: &World, grace: Duration) -> tokio::task::JoinHandle<()> {
    let world = world.clone();
    tokio::spawn(async move { world.sessions.shutdown(grace).await })
}

#[tokio::test]
async fn runs_may_end_and_new_ones_are_refused() {
    let world = World::new().await;
    let key = key("t", "s");
    let run = world.start_run(&key, &["waits"]);
    world.until_running(1).await;
    let stopping = stop(&world, LONG);
    let refused = loop {
        match world.write(&key, "a", "b").await {
            Ok(()) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code(), ErrorCode::ShuttingDown);
    assert!(refused.retry_after().is_some());
    assert!(!run.is_finished() && !stopping.is_finished());
    world.backend.gate.add_permits(1);
    ended(run).await.unwrap();
    ended(stopping).await;
    assert_eq!(world.state(&key), Some(SessionState::Stopped));
    assert!(world.backend.has_workspace(&key));
    assert_eq!(world.rows().await, ["t/s"]);
    assert_eq!(world.notes.destroyed(), [("shutdown", 1)]);
    world.assert_all_gone();
}

#[tokio::test]
async fn what_does_not_end_in_time_is_ended() {
    let world = World::with(SessionSettings {
        runs_per_session: 1,
        ..settings()
    })
    .await;
    let key = key("t", "s");
    let runs = [(); 2].map(|()| world.start_run(&key, &["waits"]));
    until("one runs and one waits", || {
        let info = world.sessions.get(&key);
        info.is_some_and(|info| (info.active_runs, info.queued_runs) == (1, 1))
    })
    .await;
    let lease = world.sessions.lease(&key).await.unwrap();
    ended(stop(&world, Duration::from_millis(20))).await;
    for run in runs {
        assert_eq!(code(ended(run).await), ErrorCode::ShuttingDown);
    }
    let call = lease.call(lease.guest().read_lines(Default::default()));
    assert_eq!(code(call.await), ErrorCode::ShuttingDown);
    assert!(world.backend.has_workspace(&key));
    world.assert_all_gone();
}

#[tokio::test]
async fn a_session_that_is_being_made_is_stopped_and_kept() {
    let world = World::new().await;
    let key = key("t", "s");
    world.backend.creating.close();
    let run = world.start_run(&key, &["echo"]);
    until("the sandbox is being made", || world.creates() == 1).await;
    let stopping = stop(&world, Duration::ZERO);
    assert_eq!(code(ended(run).await), ErrorCode::ShuttingDown);
    world.backend.creating.open();
    ended(stopping).await;
    assert_eq!(world.rows().await, ["t/s"]);
    assert!(world.backend.has_workspace(&key));
    world.assert_all_gone();
}

#[tokio::test]
async fn sessions_of_one_run_are_removed() {
    let world = World::new().await;
    let run = tokio::spawn({
        let world = world.clone();
        async move { world.run_alone("t", &["waits"]).await }
    });
    world.until_running(1).await;
    ended(stop(&world, Duration::ZERO)).await;
    assert_eq!(code(ended(run).await), ErrorCode::ShuttingDown);
    assert_eq!(world.backend.workspaces(), 0);
    assert_eq!(world.keys(), Vec::<String>::new());
    world.assert_all_gone();
}

#[tokio::test]
async fn those_who_wait_for_a_place_are_told() {
    let world = World::with(SessionSettings {
        max_sessions: 1,
        ..settings()
    })
    .await;
    let first = key("a", "1");
    world.backend.creating.close();
    let lost = world.start_run(&first, &["echo"]);
    until("the sandbox is being made", || world.creates() == 1).await;
    let delete = tokio::spawn({
        let (world, first) = (world.clone(), first.clone());
        async move { world.sessions.delete(&first).await }
    });
    assert_eq!(code(ended(lost).await), ErrorCode::SessionDeleted);
    let waiting = world.start_run(&key("b", "1"), &["echo"]);
    tokio::task::yield_now().await;
    let stopping = stop(&world, LONG);
    assert_eq!(code(ended(waiting).await), ErrorCode::ShuttingDown);
    world.backend.creating.open();
    assert!(ended(delete).await.unwrap());
    ended(stopping).await;
    world.assert_all_gone();
}

#[tokio::test]
async fn a_deletion_still_works_while_runs_are_waited_for() {
    let world = World::new().await;
    let key = key("t", "s");
    let run = world.start_run(&key, &["waits"]);
    world.until_running(1).await;
    let stopping = stop(&world, LONG);
    assert!(world.sessions.delete(&key).await.unwrap());
    assert_eq!(code(ended(run).await), ErrorCode::SessionDeleted);
    ended(stopping).await;
    assert_eq!(world.backend.workspaces(), 0);
    world.assert_all_gone();
}
