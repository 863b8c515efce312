//! Sessions that are kept as they are for a while.

use std::{sync::atomic::Ordering, time::Duration};

use sandbox_core::{ErrorCode, OnEnd, SandboxSpec, SessionOptions, Timestamp};
use sandbox_session::{CreatedBy, NewSession, SessionSettings, SessionState};

use crate::support::{World, code, ended, key, settings, until};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn new(on_end: OnEnd, ttl: u64) -> NewSession {
    NewSession {
        spec: SandboxSpec::default(),
        options: SessionOptions {
            on_end,
            ..SessionOptions::default()
        },
        idle_timeout: Some(DAY * 365),
        ttl: Some(Duration::from_secs(ttl)),
        files: Vec::new(),
        by: CreatedBy {
            subject: "ada".into(),
            request_id: None,
        },
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_session_keeps_its_files_and_takes_no_calls() {
    let world = World::new().await;
    let key = key("t", "s");
    assert_eq!(
        code(world.sessions.pause(&key, true).await),
        ErrorCode::NotFound
    );
    world.write(&key, "f", "kept").await.unwrap();
    world.sessions.pause(&key, false).await.unwrap();
    assert_eq!(world.state(&key), Some(SessionState::Paused));
    let info = world.sessions.get(&key).unwrap();
    assert!(!info.paused.unwrap().with_memory);
    assert_eq!(World::get(&world.backend.alive), 0);
    assert_eq!(
        code(world.run(&key, &["echo"]).await),
        ErrorCode::SessionPaused
    );
    assert_eq!(
        code(world.sessions.pause(&key, false).await),
        ErrorCode::SessionPaused
    );
    assert_eq!(
        code(world.sessions.set_end(&key, Timestamp(1)).await),
        ErrorCode::SessionPaused
    );
    assert!(world.sessions.lease_running(&key).is_none());
    assert!(world.sessions.resume(&key, None).await.unwrap());
    assert!(!world.sessions.resume(&key, None).await.unwrap());
    assert_eq!(world.state(&key), Some(SessionState::Running));
    assert_eq!(world.read(&key, "f").await.as_deref(), Some("kept"));
    world.sessions.shutdown(Duration::ZERO).await;
    world.assert_all_gone();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_ends_the_calls_under_way() {
    let world = World::new().await;
    let key = key("t", "s");
    let run = world.start_run(&key, &["waits"]);
    world.until_running(1).await;
    let lease = world.sessions.lease(&key).await.unwrap();
    world.sessions.pause(&key, true).await.unwrap();
    assert_eq!(code(ended(run).await), ErrorCode::SessionPaused);
    assert_eq!(lease.until_over().await.code(), ErrorCode::SessionPaused);
    // A lease of before stays useless.
    world.sessions.resume(&key, None).await.unwrap();
    assert_eq!(lease.until_over().await.code(), ErrorCode::SessionPaused);
    drop(lease);
    world.run(&key, &["echo"]).await.unwrap();
    world.sessions.delete(&key).await.unwrap();
    world.assert_all_gone();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_does_not_end_a_paused_session_before_its_limit() {
    let world = World::new().await;
    let key = key("t", "s");
    world
        .sessions
        .create(&key, &new(OnEnd::Delete, 60))
        .await
        .unwrap();
    world.clock.advance(Duration::from_secs(20));
    world.sessions.pause(&key, false).await.unwrap();
    world.clock.advance(DAY * 29);
    world.sessions.reap().await;
    assert_eq!(world.state(&key), Some(SessionState::Paused));
    // It has the 40 seconds that it had left.
    world.sessions.resume(&key, None).await.unwrap();
    let ends = world.sessions.get(&key).unwrap().ends.unwrap();
    assert_eq!(ends, Timestamp(60_000).plus(DAY * 29));
    world.sessions.pause(&key, false).await.unwrap();
    world.clock.advance(DAY * 31);
    world.sessions.reap().await;
    assert_eq!(world.state(&key), None);
    world.assert_all_gone();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_can_be_moved_and_stays_moved() {
    let world = World::new().await;
    let key = key("t", "s");
    world
        .sessions
        .create(&key, &new(OnEnd::Delete, 60))
        .await
        .unwrap();
    world
        .sessions
        .set_end(&key, Timestamp(120_000))
        .await
        .unwrap();
    world.clock.advance(Duration::from_secs(100));
    world.sessions.reap().await;
    assert_eq!(world.state(&key), Some(SessionState::Running));
    world.sessions.shutdown(Duration::ZERO).await;
    let world = world.restarted(settings()).await;
    assert_eq!(
        world.sessions.get(&key).unwrap().ends,
        Some(Timestamp(120_000))
    );
    world.clock.advance(Duration::from_secs(21));
    assert_eq!(
        code(world.sessions.lease_existing(&key).await),
        ErrorCode::NotFound
    );
    assert_eq!(world.state(&key), None);
    assert_eq!(
        code(world.sessions.set_end(&key, Timestamp(1)).await),
        ErrorCode::NotFound
    );
    world.assert_all_gone();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_may_be_paused_when_its_time_is_over() {
    let world = World::new().await;
    let (key, other) = (key("t", "s"), key("t", "o"));
    world
        .sessions
        .create(&key, &new(OnEnd::Pause, 60))
        .await
        .unwrap();
    world
        .sessions
        .create(&other, &new(OnEnd::PauseFiles, 60))
        .await
        .unwrap();
    world.write(&key, "f", "kept").await.unwrap();
    world.clock.advance(Duration::from_secs(61));
    // A call finds it over before the reaper does.
    assert_eq!(
        code(world.run(&other, &["echo"]).await),
        ErrorCode::SessionPaused
    );
    world.sessions.reap().await;
    for key in [&key, &other] {
        world.until_state(key, Some(SessionState::Paused)).await;
    }
    assert!(
        world
            .sessions
            .resume(&key, Some(Duration::from_secs(5)))
            .await
            .unwrap()
    );
    assert_eq!(
        world.sessions.get(&key).unwrap().ends,
        Some(Timestamp(66_000))
    );
    assert_eq!(world.read(&key, "f").await.as_deref(), Some("kept"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_need_look_for_a_session_to_be_paused_at_its_end() {
    let world = World::with(SessionSettings {
        reap_interval: Duration::from_millis(10),
        ..settings()
    })
    .await;
    let key = key("t", "s");
    world
        .sessions
        .create(&key, &new(OnEnd::Pause, 60))
        .await
        .unwrap();
    world.clock.advance(Duration::from_secs(61));
    world.until_state(&key, Some(SessionState::Paused)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_outlives_the_service_and_the_room_for_stopped_ones() {
    let few = || SessionSettings {
        max_sessions: 2,
        tenant_max_sessions: 2,
        tenant_max_paused: 2,
        ..settings()
    };
    let world = World::with(few()).await;
    let paused = [key("t", "a"), key("t", "b")];
    for key in &paused {
        world.write(key, "f", "kept").await.unwrap();
        world.sessions.pause(key, false).await.unwrap();
    }
    for n in 0..4 {
        let key = key("t", &format!("other{n}"));
        world.run(&key, &["echo"]).await.unwrap();
        if n == 0 {
            // There are as many as there may be, and it goes on.
            let refused = code(world.sessions.pause(&key, false).await);
            assert_eq!(refused, ErrorCode::SessionLimitReached);
            world.run(&key, &["echo"]).await.unwrap();
        }
        world.backend.kill(&key);
        let over = || world.state(&key) != Some(SessionState::Running);
        until("it has stopped, or went for others", over).await;
    }
    world.sessions.shutdown(Duration::ZERO).await;
    let world = world.restarted(few()).await;
    for key in &paused {
        assert_eq!(world.state(key), Some(SessionState::Paused));
        assert_eq!(
            code(world.run(key, &["echo"]).await),
            ErrorCode::SessionPaused
        );
        assert!(world.sessions.resume(key, None).await.unwrap());
        assert_eq!(world.read(key, "f").await.as_deref(), Some("kept"));
        world.sessions.delete(key).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_that_cannot_be_kept_is_none() {
    let world = World::new().await;
    let key = key("t", "s");
    world.run(&key, &["echo"]).await.unwrap();
    world.store.broken.store(true, Ordering::SeqCst);
    assert!(world.sessions.pause(&key, false).await.is_err());
    world.store.broken.store(false, Ordering::SeqCst);
    assert_eq!(world.state(&key), Some(SessionState::Running));
    world.run(&key, &["echo"]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pauses_and_their_ends_may_race() {
    let world = World::new().await;
    let key = key("t", "s");
    world.write(&key, "f", "kept").await.unwrap();
    let tasks = (0..40).map(|n| {
        let (world, key) = (world.clone(), key.clone());
        tokio::spawn(async move {
            match n % 4 {
                0 => drop(world.sessions.pause(&key, false).await),
                1 => drop(world.sessions.resume(&key, None).await),
                2 => drop(world.run(&key, &["echo"]).await),
                _ => drop(world.sessions.lease_existing(&key).await),
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        ended(task).await;
    }
    world.sessions.resume(&key, None).await.unwrap();
    assert_eq!(world.read(&key, "f").await.as_deref(), Some("kept"));
    world.sessions.delete(&key).await.unwrap();
    world.assert_all_gone();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resume_that_fails_leaves_the_session_as_it_was() {
    let world = World::with(SessionSettings {
        tenant_max_sessions: 1,
        ..settings()
    })
    .await;
    let (kept, other) = (key("t", "s"), key("t", "o"));
    let asked = new(OnEnd::Delete, 60);
    world.sessions.create(&kept, &asked).await.unwrap();
    world.sessions.pause(&kept, false).await.unwrap();
    let before = world.sessions.get(&kept).unwrap();
    world.run(&other, &["echo"]).await.unwrap();
    let soon = Some(Duration::from_secs(3));
    let refused = code(world.sessions.resume(&kept, soon).await);
    assert_eq!(refused, ErrorCode::SessionLimitReached);
    world.clock.advance(Duration::from_secs(100));
    world.sessions.reap().await;
    let after = world.sessions.get(&kept).unwrap();
    assert_eq!(after.state, SessionState::Paused);
    assert_eq!((after.ends, after.paused), (before.ends, before.paused));
    world.sessions.delete(&other).await.unwrap();
    world.store.broken.store(true, Ordering::SeqCst);
    assert!(world.sessions.resume(&kept, soon).await.is_err());
    world.store.broken.store(false, Ordering::SeqCst);
    assert_eq!(world.state(&kept), Some(SessionState::Paused));
    assert!(world.sessions.resume(&kept, soon).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_at_the_end_that_fails_for_a_while_is_tried_again() {
    let world = World::new().await;
    let key = key("t", "s");
    let asked = new(OnEnd::Pause, 60);
    world.sessions.create(&key, &asked).await.unwrap();
    world.clock.advance(Duration::from_secs(61));
    world.store.broken.store(true, Ordering::SeqCst);
    world.sessions.reap().await;
    assert_eq!(world.state(&key), Some(SessionState::Running));
    world.store.broken.store(false, Ordering::SeqCst);
    world.sessions.reap().await;
    assert_eq!(world.state(&key), Some(SessionState::Paused));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_tenant_has_paused_takes_no_room_of_another() {
    let world = World::with(SessionSettings {
        max_sessions: 2,
        tenant_max_paused: 2,
        ..settings()
    })
    .await;
    for (tenant, session) in [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")] {
        let key = key(tenant, session);
        let asked = new(OnEnd::PauseFiles, 60);
        world.sessions.create(&key, &asked).await.unwrap();
        world.clock.advance(Duration::from_secs(61));
        world.sessions.reap().await;
        assert_eq!(world.state(&key), Some(SessionState::Paused), "{key}");
    }
    let more = key("a", "3");
    let asked = new(OnEnd::PauseFiles, 60);
    world.sessions.create(&more, &asked).await.unwrap();
    world.clock.advance(Duration::from_secs(61));
    world.sessions.reap().await;
    world.until_state(&more, None).await;
}
