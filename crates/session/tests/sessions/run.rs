//! What a run answers, and runs in sessions of their own.

use sandbox_core::{Enforcement, ErrorCode, SandboxSpec, SessionKey, Termination};

use crate::support::{World, code, ended, file, key, program, until};

#[tokio::test]
async fn a_run_says_where_and_how_it_ran() {
    let world = World::new().await;
    let key = key("t", "s");
    let report = world.run(&key, &["echo", "a", "b"]).await.unwrap();
    assert_eq!(report.outcome.stdout.to_text(), "a b");
    assert_eq!(report.outcome.termination, Termination::Exited);
    assert_eq!(report.place.session.as_ref(), Some(&key.session));
    assert_eq!(report.place.backend, "fake");
    assert_eq!(report.place.spec, SandboxSpec::default());
    assert_eq!(
        report.place.enforcement,
        Enforcement::from([("memory", "good manners")])
    );
}

#[tokio::test]
async fn files_are_written_before_the_program_starts() {
    let world = World::new().await;
    let key = key("t", "s");
    let report = world
        .sessions
        .run(
            &key.tenant,
            Some(&key.session),
            vec![file("a", "first"), file("b", "second")],
            program(&["cat", "b"]),
        )
        .await
        .unwrap();
    assert_eq!(report.outcome.stdout.to_text(), "second");
}

#[tokio::test]
async fn a_kill_by_the_memory_limit_is_told_from_other_kills() {
    let world = World::new().await;
    let key = key("t", "s");
    for (program, termination, exit_code) in [
        ("eats-memory", Termination::OutOfMemory, 137),
        ("killed", Termination::Signaled, 137),
        ("child-eats-memory", Termination::Exited, 1),
        ("eats-memory-too-long", Termination::TimedOut, 124),
    ] {
        let outcome = world.run(&key, &[program]).await.unwrap().outcome;
        assert_eq!(
            (outcome.termination, outcome.exit_code),
            (termination, exit_code),
            "{program}"
        );
    }
}

#[tokio::test]
async fn a_caller_who_goes_away_ends_the_run_and_not_the_session() {
    let world = World::new().await;
    let key = key("t", "s");
    let run = world.start_run(&key, &["waits"]);
    world.until_running(1).await;
    run.abort();
    world.until_running(0).await;
    until("nobody runs", || {
        world.sessions.get(&key).unwrap().active_runs == 0
    })
    .await;
    assert!(
        !world
            .run(&key, &["echo"])
            .await
            .unwrap()
            .place
            .session_created
    );
}

#[tokio::test]
async fn a_run_without_a_session_has_one_that_ends_after_it() {
    let world = World::new().await;
    world.backend.removing.close();
    let report = world.run_alone("t", &["echo", "x"]).await.unwrap();
    assert_eq!(report.outcome.stdout.to_text(), "x");
    assert_eq!(
        (report.place.session, report.place.session_created),
        (None, true)
    );
    // The answer did not wait for this.
    assert_eq!(world.backend.workspaces(), 1);
    world.backend.removing.open();
    until("nothing is left", || world.sessions.list().is_empty()).await;
    assert_eq!(world.backend.workspaces(), 0);
    assert_eq!(world.notes.destroyed(), [("finished", 1)]);
    world.assert_all_gone();
}

#[tokio::test]
async fn runs_without_a_session_share_nothing() {
    let world = World::new().await;
    let tenant = "t".parse().unwrap();
    let files = vec![file("a", "x")];
    let sessions = &world.sessions;
    let (one, two) = futures::join!(
        sessions.run(&tenant, None, files, program(&["cat", "a"])),
        world.run_alone("t", &["cat", "a"]),
    );
    assert_eq!(one.unwrap().outcome.stdout.to_text(), "x");
    assert_eq!(two.unwrap().outcome.stdout.to_text(), "");
    assert_eq!(world.creates(), 2);
}

#[tokio::test]
async fn a_session_of_one_run_ends_when_its_caller_goes_away() {
    let world = World::new().await;
    let start = || {
        let world = world.clone();
        tokio::spawn(async move { world.run_alone("t", &["waits"]).await })
    };
    let run = start();
    world.until_running(1).await;
    run.abort();
    until("nothing is left", || world.sessions.list().is_empty()).await;
    world.until_running(0).await;
    world.assert_all_gone();

    world.backend.creating.close();
    let run = start();
    until("the sandbox is being made", || world.creates() == 2).await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    world.backend.creating.open();
    until("nothing is left", || world.sessions.list().is_empty()).await;
    assert_eq!(world.backend.workspaces(), 0);
    world.assert_all_gone();
}

#[tokio::test]
async fn a_session_of_one_run_ends_when_its_sandbox_dies() {
    let world = World::new().await;
    assert_eq!(
        code(world.run_alone("t", &["dies"]).await),
        ErrorCode::SandboxLost
    );
    until("nothing is left", || world.sessions.list().is_empty()).await;
    assert_eq!(world.backend.workspaces(), 0);
    world.assert_all_gone();
}

#[tokio::test]
async fn a_session_of_one_run_is_listed_and_can_be_deleted() {
    let world = World::new().await;
    let run = tokio::spawn({
        let world = world.clone();
        async move { world.run_alone("t", &["waits"]).await }
    });
    world.until_running(1).await;
    let key: SessionKey = world.sessions.list()[0].key.clone();
    assert_eq!(key.tenant.as_str(), "t");
    assert!(world.sessions.delete(&key).await.unwrap());
    assert_eq!(code(ended(run).await), ErrorCode::SessionDeleted);
    world.assert_all_gone();
}

#[tokio::test]
async fn an_error_of_the_guest_leaves_the_session_alone() {
    let world = World::new().await;
    let key = key("t", "s");
    assert_eq!(world.read(&key, "missing").await, None);
    let lease = world.sessions.lease(&key).await.unwrap();
    assert!(!lease.created());
    let missing = lease.guest().read_lines(Default::default());
    assert_eq!(code(lease.call(missing).await), ErrorCode::NotFound);
    assert_eq!(world.creates(), 1);
    drop(lease);
    world.sessions.delete(&key).await.unwrap();
    world.assert_all_gone();
}
