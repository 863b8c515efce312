//! What a service that was killed has left, and what the next one makes of it.

use std::time::Duration;

use sandbox_backend::Backend as _;
use sandbox_core::{ByteSize, ErrorCode, SandboxSpec};

use crate::support::{Docker, id, leave_behind, says};

/// Another process: it is killed while its sandbox runs.
#[tokio::test]
#[ignore = "started by the tests below"]
async fn a_service_that_is_killed() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let docker = Docker::of(&variable("TEST_OWNER"), |_| ()).unwrap();
    let place = docker
        .start(variable("TEST_SANDBOX").parse().unwrap())
        .await;
    says(&place, &variable("TEST_SCRIPT")).await;
    std::process::abort();
}

fn owner(test: &str) -> String {
    format!("restarts-{test}-{}", std::process::id())
}

#[tokio::test]
async fn a_sandbox_that_runs_on_is_taken_over() {
    let owner = owner("over");
    let Some(docker) = Docker::of(&owner, |_| ()) else {
        return;
    };
    let script = "touch before; (while :; do date +%s%N > ticks; sleep 0.1; done) >/dev/null 2>&1 & \
                  head -c 3000000 /dev/zero";
    leave_behind(&owner, 1, script);
    let containers = docker.containers();
    let found = docker.backend.list().await.unwrap();
    assert!(found.len() == 1 && found[0].running, "{found:?}");
    let mut spec = SandboxSpec::default();
    spec.limits.memory = ByteSize::mib(100);
    spec.env.insert("GIVEN".into(), "now".into());
    let place = docker.start_with(1, &spec).await;
    // The same container, with what runs in it, and the limits that are wanted now.
    assert_eq!(docker.containers(), containers);
    let said = says(
        &place,
        "ls before; a=$(cat ticks); sleep 0.5; [ \"$a\" != \"$(cat ticks)\" ] && echo ticks; \
         echo $GIVEN; cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes \
         2>/dev/null",
    )
    .await;
    assert_eq!(said, "before\nticks\nnow\n104857600\n");
    place.stop().await.unwrap();
    docker.backend.remove(&id(1)).await.unwrap();
}

#[tokio::test]
async fn one_of_another_shape_or_guest_is_replaced_and_its_workspace_stays() {
    let changes: [fn(&mut backend_docker::DockerConfig); 2] = [
        |config| config.alone_limit = Duration::from_secs(1),
        |config| {
            let mut guest = config.guest.to_vec();
            guest.extend_from_slice(b"another");
            config.guest = guest.into();
        },
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let owner = owner(&format!("replaced-{n}"));
        let Some(docker) = Docker::of(&owner, change) else {
            return;
        };
        leave_behind(&owner, 1, "echo kept > f; sleep 1234 >/dev/null 2>&1 &");
        let before = docker.containers();
        let mut spec = SandboxSpec::default();
        spec.limits.tmp = ByteSize::mib(1);
        let place = docker.start_with(1, &spec).await;
        assert_ne!(docker.containers(), before);
        assert_eq!(docker.containers().len(), 1);
        let said = says(
            &place,
            "cat f; cat /proc/*/cmdline | tr '\\0' ' ' | grep -c 'sleep 123[4]'",
        )
        .await;
        assert_eq!(said, "kept\n0\n");
        place.stop().await.unwrap();
        docker.backend.remove(&id(1)).await.unwrap();
    }
}

#[tokio::test]
async fn one_whose_image_is_not_allowed_any_more_ends_and_its_workspace_stays() {
    let owner = owner("refused");
    let Some(docker) = Docker::of(&owner, |config| config.image = "another".into()) else {
        return;
    };
    leave_behind(&owner, 1, "echo kept > f");
    let spec = SandboxSpec {
        image: Some(test_docker::IMAGE.into()),
        ..SandboxSpec::default()
    };
    let refused = docker.backend.create(&id(1), &spec).await.err().unwrap();
    assert_eq!(refused.code(), ErrorCode::Unsupported);
    assert!(docker.containers().is_empty());
    assert_eq!(docker.volumes().len(), 1);
    docker.backend.remove(&id(1)).await.unwrap();
}

#[tokio::test]
async fn what_is_not_wanted_any_more_is_removed() {
    let owner = owner("orphan");
    let Some(docker) = Docker::of(&owner, |_| ()) else {
        return;
    };
    leave_behind(&owner, 1, "true");
    leave_behind(&owner, 2, "true");
    // One is dead, and one runs.
    let containers = docker.containers();
    assert_eq!(containers.len(), 2);
    docker.docker(&["kill", &containers[0]]);
    let found = docker.backend.list().await.unwrap();
    assert_eq!(found.iter().filter(|found| found.running).count(), 1);
    assert_eq!(docker.containers().len(), 1);
    for found in found {
        docker.backend.remove(&found.id).await.unwrap();
    }
    assert!(docker.containers().is_empty() && docker.volumes().is_empty());
}

#[tokio::test]
async fn a_sandbox_without_a_service_ends_after_a_while() {
    let owner = owner("alone");
    let Some(docker) = Docker::of(&owner, |config| config.alone_limit = Duration::from_secs(1))
    else {
        return;
    };
    let place = docker.start(1).await;
    // This service is there, and says so only now and then.
    says(&place, "true").await;
    crate::support::soon(place.gone()).await;
    docker.backend.remove(&id(1)).await.unwrap();
}
