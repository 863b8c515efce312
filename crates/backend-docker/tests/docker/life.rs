//! Ends that nobody here has asked for, and what heals them.

use std::path::Path;

use backend_docker::DockerBackend;
use sandbox_backend::{Backend as _, Found};
use sandbox_core::{ErrorCode, SandboxSpec};

use crate::support::{Docker, config, id, says, soon};

#[tokio::test]
async fn a_container_that_is_removed_from_outside_is_made_again() {
    let Some(docker) = Docker::new() else { return };
    let place = docker.start(1).await;
    says(&place, "echo kept > f").await;
    docker.docker(&["rm", "-f", &docker.containers()[0]]);
    soon(place.gone()).await;
    let place = docker.start(1).await;
    assert_eq!(says(&place, "cat f").await, "kept\n");
    place.stop().await.unwrap();
    docker.backend.remove(&id(1)).await.unwrap();
    assert!(docker.containers().is_empty() && docker.volumes().is_empty());
}

#[tokio::test]
async fn a_container_that_is_killed_or_paused_to_death_is_noticed() {
    let Some(docker) = Docker::new() else { return };
    let place = docker.start(1).await;
    docker.docker(&["kill", &docker.containers()[0]]);
    soon(place.gone()).await;
    // Not only noticed: nothing of it is left.
    assert!(docker.containers().is_empty());
    docker.backend.remove(&id(1)).await.unwrap();
}

#[tokio::test]
async fn a_guest_volume_that_somebody_has_removed_is_filled_again() {
    let Some(docker) = Docker::new() else { return };
    let place = docker.start(1).await;
    place.stop().await.unwrap();
    let guests = docker.guests();
    assert_eq!(guests.len(), 1);
    docker.docker(&["volume", "rm", &guests[0]]);
    let place = docker.start(1).await;
    assert_eq!(says(&place, "echo on").await, "on\n");
    place.stop().await.unwrap();
    docker.backend.remove(&id(1)).await.unwrap();
}

#[tokio::test]
async fn a_sandbox_that_is_refused_leaves_the_guest_of_others_alone() {
    let Some(docker) = Docker::new() else { return };
    let place = docker.start(1).await;
    let file = "stat -c %i /.sandbox/guest";
    let before = says(&place, file).await;
    // Less than a daemon takes.
    let mut tiny = SandboxSpec::default();
    tiny.limits.memory = sandbox_core::ByteSize::mib(1);
    let refused = docker.backend.create(&id(2), &tiny).await;
    assert_eq!(refused.err().unwrap().code(), ErrorCode::BackendUnavailable);
    assert_eq!(says(&place, file).await, before);
    place.stop().await.unwrap();
    for n in [1, 2] {
        docker.backend.remove(&id(n)).await.unwrap();
    }
}

#[tokio::test]
async fn a_sandbox_that_may_use_more_processors_than_there_are_has_all_of_them() {
    let Some(docker) = Docker::new() else { return };
    let mut spec = SandboxSpec::default();
    spec.limits.cpus = 1000.0;
    let place = docker.start_with(1, &spec).await;
    let processors: u64 = docker
        .docker(&["info", "--format", "{{.NCPU}}"])
        .trim()
        .parse()
        .unwrap();
    let given = docker.inspect(&docker.containers()[0], "{{.HostConfig.NanoCpus}}");
    assert_eq!(given, (processors * 1_000_000_000).to_string());
    place.adapt(&spec).await.unwrap();
    place.stop().await.unwrap();
    docker.backend.remove(&id(1)).await.unwrap();
}

#[tokio::test]
async fn a_restart_of_the_daemon_is_noticed_and_healed() {
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docker-restart");
    let Some(mut daemon) = test_docker::Daemon::own(&data) else {
        return;
    };
    let backend = DockerBackend::new(config(&daemon.host, "restart"));
    let spec = SandboxSpec::default();
    let place = backend.create(&id(1), &spec).await.unwrap();
    says(&place, "echo kept > f").await;
    daemon.stop();
    // The handle knows, and waits for the daemon to remove the container.
    soon(place.guest().closed()).await;
    let readiness = backend.check().await;
    assert!(
        readiness.problems[0].what.contains("does not answer"),
        "{readiness:?}"
    );
    let refused = backend.create(&id(2), &spec).await.err().unwrap();
    assert_eq!(refused.code(), ErrorCode::BackendUnavailable);
    daemon.start();
    soon(place.gone()).await;
    let place = backend.create(&id(1), &spec).await.unwrap();
    assert_eq!(says(&place, "cat f").await, "kept\n");
    let running = Found {
        id: id(1),
        running: false,
    };
    assert_eq!(backend.list().await.unwrap(), [running]);
    place.stop().await.unwrap();
    backend.remove(&id(1)).await.unwrap();
}

#[tokio::test]
async fn without_a_daemon_it_is_said_what_to_do() {
    let backend = DockerBackend::new(config("unix:///nowhere/docker.sock", "nobody"));
    let readiness = backend.check().await;
    assert!(!readiness.ready());
    assert!(readiness.problems[0].fix.contains("docker_host"));
    let refused = backend.create(&id(1), &SandboxSpec::default()).await;
    let refused = refused.err().unwrap();
    assert_eq!(refused.code(), ErrorCode::BackendUnavailable);
    assert!(
        !refused.detail().contains("nowhere"),
        "{}",
        refused.detail()
    );
}
