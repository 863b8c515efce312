//! A deletion ends all of a session, whatever it is doing.

use std::sync::atomic::Ordering;

use sandbox_core::ErrorCode;
use sandbox_session::SessionState;

use crate::support::{World, code, ended, key, until};

#[tokio::test]
async fn a_deletion_removes_sandbox_workspace_and_row() {
    let world = World::new().await;
    let (key, other) = (key("t", "s"), key("t", "other"));
    world.write(&key, "a", "b").await.unwrap();
    world.write(&other, "a", "b").await.unwrap();
    assert!(world.sessions.delete(&key).await.unwrap());
    assert_eq!(world.keys(), ["t/other"]);
    assert_eq!(world.rows().await, ["t/other"]);
    assert!(!world.backend.has_workspace(&key));
    assert_eq!(World::get(&world.backend.alive), 1);
    assert_eq!(world.notes.destroyed(), [("deleted", 1)]);
    assert!(!world.sessions.delete(&key).await.unwrap());
    assert_eq!(world.read(&key, "a").await, None);
    world.backend.assert_sound();
}

#[tokio::test]
async fn a_deletion_ends_runs_queued_runs_and_calls_with_its_own_error() {
    let world = World::new().await;
    let key = key("t", "s");
    let mut calls: Vec<_> = (0..6)
        .map(|_| world.start_run(&key, &["waits"]))
        .map(|run| tokio::spawn(async move { run.await.unwrap().map(|_| ()) }))
        .collect();
    world.until_running(4).await;
    calls.push(tokio::spawn({
        let (world, key) = (world.clone(), key.clone());
        async move {
            let call = world.sessions.with_guest(&key, |guest| async move {
                guest.list(Default::default()).await
            });
            call.await.map(|_| ())
        }
    }));
    world.until_running(5).await;
    until("two runs wait", || {
        world.sessions.get(&key).unwrap().queued_runs == 2
    })
    .await;
    assert!(world.sessions.delete(&key).await.unwrap());
    for call in calls {
        let error = ended(call).await.unwrap_err();
        assert_eq!(
            (error.code(), error.detail()),
            (
                ErrorCode::SessionDeleted,
                "the session was deleted during the call"
            )
        );
    }
    world.until_running(0).await;
    world.assert_all_gone();
}

#[tokio::test]
async fn a_deletion_waits_for_the_creation_and_then_destroys() {
    let world = World::new().await;
    let key = key("t", "s");
    world.backend.creating.close();
    let run = world.start_run(&key, &["echo"]);
    until("the sandbox is being made", || world.creates() == 1).await;
    let delete = tokio::spawn({
        let (world, key) = (world.clone(), key.clone());
        async move { world.sessions.delete(&key).await }
    });
    assert_eq!(code(ended(run).await), ErrorCode::SessionDeleted);
    assert_eq!(world.state(&key), Some(SessionState::Ending));
    assert_eq!(World::get(&world.backend.removes), 0);
    world.backend.creating.open();
    assert!(ended(delete).await.unwrap());
    assert_eq!(world.creates(), 1);
    assert_eq!(world.backend.workspaces(), 0);
    assert_eq!(world.rows().await, Vec::<String>::new());
    assert_eq!(world.notes.destroyed(), [("deleted", 1)]);
    world.assert_all_gone();
}

#[tokio::test]
async fn a_call_during_a_deletion_gets_a_fresh_session_after_it() {
    let world = World::new().await;
    let key = key("t", "s");
    world.write(&key, "old", "x").await.unwrap();
    world.backend.removing.close();
    let delete = tokio::spawn({
        let (world, key) = (world.clone(), key.clone());
        async move { world.sessions.delete(&key).await }
    });
    until("the removal is under way", || {
        World::get(&world.backend.removes) == 1
    })
    .await;
    let again = tokio::spawn({
        let (world, key) = (world.clone(), key.clone());
        async move { world.sessions.delete(&key).await }
    });
    let run = world.start_run(&key, &["cat", "old"]);
    tokio::task::yield_now().await;
    assert_eq!(world.creates(), 1);
    assert_eq!(world.state(&key), Some(SessionState::Ending));
    assert_eq!(world.sessions.get(&key).unwrap().expires, None);
    world.backend.removing.open();
    assert!(ended(delete).await.unwrap());
    assert!(!ended(again).await.unwrap());
    let report = ended(run).await.unwrap();
    assert_eq!(report.outcome.stdout.to_text(), "");
    assert!(report.place.session_created);
    assert_eq!(world.rows().await, ["t/s"]);
    world.backend.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_deletions_that_race_never_meet_in_one_sandbox() {
    let world = World::new().await;
    let key = key("t", "s");
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let (world, key) = (world.clone(), key.clone());
            tokio::spawn(async move {
                for _ in 0..25 {
                    match world.run(&key, &["echo", "x"]).await {
                        Ok(report) => assert_eq!(report.outcome.stdout.to_text(), "x"),
                        Err(error) => assert_eq!(error.code(), ErrorCode::SessionDeleted),
                    }
                }
            })
        })
        .collect();
    let deleter = tokio::spawn({
        let (world, key) = (world.clone(), key.clone());
        async move {
            for _ in 0..40 {
                world.sessions.delete(&key).await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    });
    ended(deleter).await;
    for caller in callers {
        ended(caller).await;
    }
    world.sessions.delete(&key).await.unwrap();
    assert_eq!(World::get(&world.backend.most_alive), 1);
    assert_eq!(world.backend.workspaces(), 0);
    assert_eq!(world.rows().await, Vec::<String>::new());
    world.assert_all_gone();
}

#[tokio::test]
async fn a_deletion_whose_caller_goes_away_is_done_all_the_same() {
    let world = World::new().await;
    let key = key("t", "s");
    world.run(&key, &["echo"]).await.unwrap();
    world.backend.removing.close();
    let delete = tokio::spawn({
        let (world, key) = (world.clone(), key.clone());
        async move { world.sessions.delete(&key).await }
    });
    until("the removal is under way", || {
        World::get(&world.backend.removes) == 1
    })
    .await;
    delete.abort();
    world.backend.removing.open();
    world.until_state(&key, None).await;
    world.assert_all_gone();
}

#[tokio::test]
async fn callers_do_not_wait_for_a_sandbox_that_is_slow_to_end() {
    let world = World::new().await;
    let key = key("t", "s");
    let run = world.start_run(&key, &["waits"]);
    world.until_running(1).await;
    world.backend.failing_stops.store(2, Ordering::SeqCst);
    let delete = tokio::spawn({
        let (world, key) = (world.clone(), key.clone());
        async move { world.sessions.delete(&key).await }
    });
    assert_eq!(code(ended(run).await), ErrorCode::SessionDeleted);
    assert_eq!(World::get(&world.backend.alive), 1);
    assert!(ended(delete).await.unwrap());
    world.assert_all_gone();
}

#[tokio::test]
async fn a_removal_that_fails_is_tried_again() {
    let world = World::new().await;
    let key = key("t", "s");
    world.run(&key, &["echo"]).await.unwrap();
    world.backend.failing_stops.store(1, Ordering::SeqCst);
    world.backend.failing_removes.store(1, Ordering::SeqCst);
    assert!(world.sessions.delete(&key).await.unwrap());
    assert!(!world.backend.has_workspace(&key));
    world.assert_all_gone();
}

#[tokio::test]
async fn what_a_deletion_could_not_remove_is_never_served_again() {
    let world = World::new().await;
    let key = key("t", "s");
    world.write(&key, "old", "x").await.unwrap();
    world.backend.failing_removes.store(6, Ordering::SeqCst);
    assert_eq!(code(world.sessions.delete(&key).await), ErrorCode::Internal);
    assert_eq!(world.state(&key), Some(SessionState::Stopped));
    // The next call tries the removal again, and fails with it.
    assert_eq!(code(world.run(&key, &["echo"]).await), ErrorCode::Internal);
    assert_eq!(world.creates(), 1);
    world.sessions.reap().await;
    assert_eq!(world.state(&key), None);
    assert_eq!(world.read(&key, "old").await, None);
    world.backend.assert_sound();
}
