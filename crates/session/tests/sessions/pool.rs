//! Sandboxes that are started before anybody wants them.

use std::{sync::atomic::Ordering, time::Duration};

use futures::future::join_all;
use sandbox_core::{ByteSize, ErrorCode, Limits, NetworkPolicy, SandboxSpec, SessionOptions};
use sandbox_session::{CreatedBy, NewSession, SessionSettings};

use crate::support::{World, code, key, settings, until};

async fn world(pool_size: usize, max_sessions: usize) -> World {
    let world = World::with(SessionSettings {
        pool_size,
        max_sessions,
        ..settings()
    })
    .await;
    filled(&world, pool_size).await;
    world
}

async fn filled(world: &World, size: usize) {
    until("the pool is full", || {
        world.notes.pooled.load(Ordering::SeqCst) == i64::try_from(size).unwrap()
    })
    .await;
}

fn asked(spec: SandboxSpec) -> NewSession {
    NewSession {
        spec,
        options: SessionOptions::default(),
        idle_timeout: None,
        ttl: None,
        files: vec![],
        by: CreatedBy {
            subject: "ada".into(),
            request_id: None,
        },
    }
}

#[tokio::test]
async fn a_new_session_takes_one_and_the_pool_is_filled_again() {
    let world = world(2, 10).await;
    assert_eq!(world.creates(), 2);
    // What is made from now on waits.
    world.backend.creating.close();
    let (one, other) = (key("t", "one"), key("t", "other"));
    world.run(&one, &["echo"]).await.unwrap();
    world.run_alone("t", &["echo"]).await.unwrap();
    world.run(&one, &["echo"]).await.unwrap();
    world.backend.creating.open();
    filled(&world, 2).await;
    world.run(&other, &["echo"]).await.unwrap();
    // Nobody waits for a sandbox that is there.
    assert_eq!(world.keys(), ["t/one", "t/other"]);
    filled(&world, 2).await;
    world.sessions.shutdown(Duration::ZERO).await;
    world.assert_all_gone();
    // Those of the pool leave no workspace.
    assert_eq!(world.backend.workspaces(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_taken_once() {
    let world = world(4, 50).await;
    let keys: Vec<_> = (0..30).map(|n| key("t", &format!("s{n}"))).collect();
    let runs = keys.iter().map(|key| world.run(key, &["echo"]));
    for run in join_all(runs).await {
        run.unwrap();
    }
    for key in &keys {
        world.write(key, "name", &key.to_string()).await.unwrap();
    }
    for key in &keys {
        assert_eq!(world.read(key, "name").await.unwrap(), key.to_string());
    }
    world.backend.assert_sound();
}

#[tokio::test]
async fn it_is_given_what_the_session_asks_for() {
    let world = world(1, 10).await;
    world.backend.creating.close();
    let spec = SandboxSpec {
        limits: Limits {
            memory: ByteSize::mib(64),
            ..Limits::default()
        },
        ..SandboxSpec::default()
    };
    let key = key("t", "s");
    assert!(
        world
            .sessions
            .create(&key, &asked(spec.clone()))
            .await
            .unwrap()
    );
    assert_eq!(world.sessions.get(&key).unwrap().spec, spec);
    assert_eq!(world.backend.last_adapted(), Some(spec.limits));
    world.backend.creating.open();
}

#[tokio::test]
async fn what_does_not_suit_stays_in_the_pool() {
    let world = world(1, 10).await;
    let spec = SandboxSpec {
        network: NetworkPolicy::AllowAll,
        ..SandboxSpec::default()
    };
    let with_network = key("t", "net");
    world
        .sessions
        .create(&with_network, &asked(spec))
        .await
        .unwrap();
    assert_eq!(world.creates(), 2);
    world.backend.creating.close();
    // The warm one is still there.
    world.run(&key("t", "s"), &["echo"]).await.unwrap();
    world.backend.creating.open();
}

#[tokio::test]
async fn one_that_cannot_be_adapted_is_replaced_by_a_new_one() {
    let world = world(1, 10).await;
    world.backend.failing_adapts.store(1, Ordering::SeqCst);
    let key = key("t", "s");
    world.run(&key, &["echo"]).await.unwrap();
    world.write(&key, "a", "kept").await.unwrap();
    world.backend.assert_sound();
    world.sessions.delete(&key).await.unwrap();
    filled(&world, 1).await;
    assert_eq!(world.backend.workspaces(), 1);
}

#[tokio::test]
async fn the_pool_is_within_the_ceiling_and_gives_way() {
    let world = world(3, 4).await;
    for n in 0..4 {
        let spec = SandboxSpec {
            network: NetworkPolicy::AllowAll,
            ..SandboxSpec::default()
        };
        let key = key("t", &format!("s{n}"));
        world.sessions.create(&key, &asked(spec)).await.unwrap();
        assert!(world.backend.most_alive.load(Ordering::SeqCst) <= 4);
    }
    until("the pool has given all places up", || {
        world.backend.alive.load(Ordering::SeqCst) == 4
            && world.notes.pooled.load(Ordering::SeqCst) == 0
    })
    .await;
    let refused = world.run(&key("t", "more"), &["echo"]).await;
    assert_eq!(code(refused), ErrorCode::SessionLimitReached);
    world.backend.assert_sound();
}

#[tokio::test]
async fn one_that_has_died_is_nobodys() {
    let world = world(1, 10).await;
    world.backend.kill_all();
    until("it is dead", || {
        world.backend.alive.load(Ordering::SeqCst) == 0
    })
    .await;
    world.run(&key("t", "s"), &["echo"]).await.unwrap();
    filled(&world, 1).await;
    until("nothing is left of it", || world.backend.workspaces() == 2).await;
}

#[tokio::test]
async fn a_session_from_the_pool_keeps_its_workspace_over_restarts() {
    let before = world(1, 10).await;
    let key = key("t", "s");
    before.write(&key, "a", "kept").await.unwrap();
    before.sessions.shutdown(Duration::ZERO).await;
    let world = before
        .restarted(SessionSettings {
            pool_size: 1,
            ..settings()
        })
        .await;
    filled(&world, 1).await;
    assert_eq!(world.read(&key, "a").await.as_deref(), Some("kept"));
    world.sessions.delete(&key).await.unwrap();
    until("only the pool's own is left", || {
        world.backend.workspaces() == 1
    })
    .await;
    world.backend.assert_sound();
}

#[tokio::test]
async fn what_a_killed_service_has_left_of_its_pool_is_removed() {
    let before = world(2, 10).await;
    // Nobody knows these names any more.
    before.backend.kill_all();
    until("they are dead", || {
        before.backend.alive.load(Ordering::SeqCst) == 0
    })
    .await;
    let world = before.restarted(settings()).await;
    assert_eq!(world.backend.workspaces(), 0);
}
