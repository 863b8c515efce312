//! How many sessions there may be, and how many runs in each.

use std::time::Duration;

use sandbox_core::{ErrorCode, Result};
use sandbox_session::{RunReport, SessionSettings, SessionState};

use crate::support::{IDLE, World, ended, key, settings, until};

fn ceilings(max_sessions: usize, tenant_max_sessions: usize) -> SessionSettings {
    SessionSettings {
        max_sessions,
        tenant_max_sessions,
        ..settings()
    }
}

fn refused(result: Result<RunReport>) -> (String, Option<Duration>) {
    let error = result.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SessionLimitReached);
    (error.detail().to_owned(), error.retry_after())
}

#[tokio::test]
async fn at_the_ceiling_a_new_session_is_refused_and_old_ones_go_on() {
    let world = World::with(ceilings(2, 2)).await;
    world.run(&key("secret-a", "1"), &["echo"]).await.unwrap();
    world.run(&key("secret-b", "1"), &["echo"]).await.unwrap();
    world.clock.advance(IDLE - Duration::from_millis(30_500));
    let (detail, after) = refused(world.run(&key("c", "1"), &["echo"]).await);
    assert_eq!(after, Some(Duration::from_secs(31)));
    assert!(!detail.contains("secret"), "{detail}");
    refused(world.run_alone("c", &["echo"]).await);
    world.run(&key("secret-a", "1"), &["echo"]).await.unwrap();
    assert_eq!(world.creates(), 2);
}

#[tokio::test]
async fn a_tenant_at_its_ceiling_leaves_room_for_others() {
    let world = World::with(ceilings(10, 1)).await;
    world.run(&key("a", "1"), &["echo"]).await.unwrap();
    let (_, after) = refused(world.run(&key("a", "2"), &["echo"]).await);
    assert_eq!(after, Some(Duration::from_secs(60)));
    world.run(&key("b", "1"), &["echo"]).await.unwrap();
}

#[tokio::test]
async fn many_first_calls_at_once_stay_below_the_ceiling() {
    let world = World::with(ceilings(5, 3)).await;
    let runs: Vec<_> = (0..40)
        .map(|n| world.start_run(&key(["a", "b"][n % 2], &n.to_string()), &["echo"]))
        .collect();
    let mut admitted = 0;
    for run in runs {
        match ended(run).await {
            Ok(_) => admitted += 1,
            Err(error) => assert_eq!(error.code(), ErrorCode::SessionLimitReached),
        }
    }
    assert_eq!(admitted, 5);
    assert_eq!(World::get(&world.backend.most_alive), 5);
}

#[tokio::test]
async fn an_expired_session_gives_its_place_up() {
    let world = World::with(ceilings(2, 2)).await;
    world.run(&key("a", "old"), &["echo"]).await.unwrap();
    world.clock.advance(IDLE / 2);
    world.run(&key("a", "new"), &["echo"]).await.unwrap();
    world.clock.advance(IDLE / 2);
    world.run(&key("b", "1"), &["echo"]).await.unwrap();
    assert_eq!(world.keys(), ["a/new", "b/1"]);
    assert_eq!(World::get(&world.backend.most_alive), 2);
    assert_eq!(world.notes.destroyed(), [("idle", 1)]);
    world.backend.assert_sound();
}

#[tokio::test]
async fn a_session_that_is_used_keeps_its_place_however_long() {
    let world = World::with(ceilings(1, 1)).await;
    let run = world.start_run(&key("a", "1"), &["waits"]);
    world.until_running(1).await;
    world.clock.advance(IDLE * 5);
    refused(world.run(&key("b", "1"), &["echo"]).await);
    world.backend.gate.add_permits(1);
    ended(run).await.unwrap();
}

#[tokio::test]
async fn a_sandbox_that_died_takes_no_place() {
    let world = World::with(ceilings(1, 1)).await;
    let dead = key("a", "1");
    world.run(&dead, &["echo"]).await.unwrap();
    world.kill(&dead).await;
    world.run(&key("b", "1"), &["echo"]).await.unwrap();
    assert_eq!(world.state(&dead), Some(SessionState::Stopped));
    refused(world.run(&dead, &["echo"]).await);
    assert_eq!(world.state(&dead), Some(SessionState::Stopped));
}

#[tokio::test]
async fn a_call_waits_for_the_place_of_a_sandbox_that_is_on_its_way_out() {
    let world = World::with(ceilings(1, 1)).await;
    let first = key("a", "1");
    world.backend.creating.close();
    let lost = world.start_run(&first, &["echo"]);
    until("the sandbox is being made", || world.creates() == 1).await;
    let delete = tokio::spawn({
        let (world, first) = (world.clone(), first.clone());
        async move { world.sessions.delete(&first).await }
    });
    assert!(ended(lost).await.is_err());
    let run = world.start_run(&key("b", "1"), &["echo"]);
    tokio::task::yield_now().await;
    assert_eq!(world.creates(), 1);
    world.backend.creating.open();
    assert!(ended(delete).await.unwrap());
    ended(run).await.unwrap();
    assert_eq!(World::get(&world.backend.most_alive), 1);
}

#[tokio::test]
async fn the_removal_of_a_workspace_takes_no_place() {
    let world = World::with(ceilings(1, 1)).await;
    let first = key("a", "1");
    world.run(&first, &["echo"]).await.unwrap();
    world.backend.removing.close();
    let delete = tokio::spawn({
        let (world, first) = (world.clone(), first.clone());
        async move { world.sessions.delete(&first).await }
    });
    world.until_state(&first, Some(SessionState::Ending)).await;
    world.run(&key("b", "1"), &["echo"]).await.unwrap();
    assert_eq!(world.state(&first), Some(SessionState::Ending));
    world.backend.removing.open();
    assert!(ended(delete).await.unwrap());
    assert_eq!(World::get(&world.backend.most_alive), 1);
}

#[tokio::test]
async fn stopped_sessions_beyond_the_ceiling_go_the_longest_unused_first() {
    let world = World::with(ceilings(2, 2)).await;
    for session in ["1", "2", "3"] {
        let key = key("a", session);
        world.run(&key, &["echo"]).await.unwrap();
        world.kill(&key).await;
        world.clock.advance(Duration::from_secs(1));
    }
    world.until_state(&key("a", "1"), None).await;
    assert_eq!(world.keys(), ["a/2", "a/3"]);
    assert_eq!(world.backend.workspaces(), 2);
    world.backend.assert_sound();
}

#[tokio::test]
async fn a_tenant_cannot_push_out_the_stopped_sessions_of_another() {
    let world = World::with(ceilings(3, 1)).await;
    let victim = key("victim", "1");
    world.run(&victim, &["echo"]).await.unwrap();
    world.kill(&victim).await;
    for n in 0..5 {
        world.clock.advance(Duration::from_secs(1));
        let key = key("greedy", &n.to_string());
        world.run(&key, &["echo"]).await.unwrap();
        world.backend.kill(&key);
        until("it is dead", || World::get(&world.backend.alive) == 0).await;
    }
    until("one of the greedy is left", || world.keys().len() == 2).await;
    assert_eq!(world.keys(), ["greedy/4", "victim/1"]);
}

#[tokio::test]
async fn runs_beyond_their_number_wait_in_order() {
    let world = World::with(SessionSettings {
        runs_per_session: 2,
        ..settings()
    })
    .await;
    let key = key("t", "s");
    world.run(&key, &["echo"]).await.unwrap();
    let mut runs = Vec::new();
    for n in 0..6 {
        runs.push(world.start_run(&key, &["waits", &n.to_string()]));
        until("it runs or waits", || {
            let info = world.sessions.get(&key).unwrap();
            info.active_runs + info.queued_runs == n + 1
        })
        .await;
    }
    let names = ["0", "1", "2", "3", "4", "5"];
    for started in 2..=6 {
        until("two run", || world.backend.runs().len() == started).await;
        let mut first = world.backend.runs();
        // The first two start at the same time.
        first[..2].sort();
        assert_eq!(first, names[..started]);
        world.backend.gate.add_permits(1);
    }
    world.backend.gate.add_permits(1);
    for run in runs {
        ended(run).await.unwrap();
    }
    assert_eq!(World::get(&world.notes.waited), 7);
}

#[tokio::test]
async fn a_full_queue_refuses_runs_and_takes_file_calls() {
    let world = World::with(SessionSettings {
        runs_per_session: 1,
        queued_runs_per_session: 1,
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
    let error = world.run(&key, &["echo"]).await.unwrap_err();
    assert_eq!(
        (error.code(), error.retry_after()),
        (ErrorCode::SessionBusy, Some(Duration::from_secs(1)))
    );
    world.write(&key, "a", "b").await.unwrap();
    world.backend.gate.add_permits(2);
    for run in runs {
        ended(run).await.unwrap();
    }
    world.run(&key, &["echo"]).await.unwrap();
}

#[tokio::test]
async fn a_queued_run_whose_caller_goes_away_leaves_the_queue() {
    let world = World::with(SessionSettings {
        runs_per_session: 1,
        ..settings()
    })
    .await;
    let key = key("t", "s");
    let running = world.start_run(&key, &["waits", "first"]);
    world.until_running(1).await;
    let waiting = world.start_run(&key, &["waits", "gone"]);
    let queued = || world.sessions.get(&key).unwrap().queued_runs;
    until("one waits", || queued() == 1).await;
    waiting.abort();
    until("none waits", || queued() == 0).await;
    world.backend.gate.add_permits(1);
    ended(running).await.unwrap();
    world.run(&key, &["echo", "last"]).await.unwrap();
    assert_eq!(world.backend.runs(), ["first", "last"]);
}
