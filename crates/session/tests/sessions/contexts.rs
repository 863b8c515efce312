//! Turns of runs in contexts.

use sandbox_session::SessionSettings;

use crate::support::{World, ended, key, settings, until};

#[tokio::test]
async fn runs_of_one_context_follow_each_other_and_take_one_turn_of_the_session() {
    let world = World::with(SessionSettings {
        runs_per_session: 2,
        ..settings()
    })
    .await;
    let key = key("t", "s");
    world.run(&key, &["echo"]).await.unwrap();
    let mut runs = vec![world.start_in(&key, "a")];
    world.until_running(1).await;
    runs.push(world.start_in(&key, "a"));
    runs.push(world.start_in(&key, "a"));
    let info = || world.sessions.get(&key).unwrap();
    until("two wait", || info().queued_runs == 2).await;
    assert_eq!(info().active_runs, 1);
    runs.push(world.start_in(&key, "b"));
    world.until_running(2).await;
    assert_eq!(world.backend.runs(), ["a", "b"]);
    // One that goes away leaves the queue.
    runs.remove(1).abort();
    until("one waits", || info().queued_runs == 1).await;
    for _ in 0..3 {
        world.backend.gate.add_permits(1);
    }
    for run in runs {
        ended(run).await.unwrap();
    }
    assert_eq!(world.backend.runs(), ["a", "b", "a"]);
}
