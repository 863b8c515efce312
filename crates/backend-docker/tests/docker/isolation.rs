//! What the host sees of a container, not what was asked for.

use std::{fs, process::Command};

use sandbox_backend::Backend as _;
use sandbox_core::{ByteSize, SandboxSpec};

use crate::support::{Docker, id, says};

#[tokio::test]
async fn the_real_process_has_no_privileges() {
    let Some(docker) = Docker::new() else { return };
    let place = docker.start(1).await;
    let container = &docker.containers()[0];
    let pid = docker.inspect(container, "{{.State.Pid}}");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(
        status.contains("Uid:\t65532\t65532\t65532\t65532\n"),
        "{status}"
    );
    assert!(status.contains("CapBnd:\t0000000000000000\n"), "{status}");
    assert!(status.contains("NoNewPrivs:\t1\n"), "{status}");
    assert!(status.contains("Seccomp:\t2\n"), "{status}");
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core"))
        .unwrap();
    assert!(core.split_whitespace().nth(4) == Some("0"), "{core}");
    for namespace in ["net", "pid", "mnt", "ipc", "uts", "cgroup"] {
        let link = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{namespace}")).unwrap();
        assert_ne!(link(&pid), link("self"), "{namespace}");
    }
    place.stop().await.unwrap();
    docker.backend.remove(&id(1)).await.unwrap();
}

#[tokio::test]
async fn nothing_of_the_host_is_mounted_and_nothing_is_logged() {
    let Some(docker) = Docker::new() else { return };
    let place = docker.start(1).await;
    let container = &docker.containers()[0];
    let mounts = docker.inspect(
        container,
        "{{range .Mounts}}{{.Type}} {{.Destination}} {{.RW}}\n{{end}}",
    );
    let mut mounts: Vec<_> = mounts.lines().collect();
    mounts.sort_unstable();
    assert_eq!(mounts, ["volume /.sandbox false", "volume /workspace true"]);
    assert_eq!(
        docker.inspect(container, "{{.HostConfig.LogConfig.Type}}"),
        "none"
    );
    // The guest's own program cannot be changed, by its owner neither.
    let said = says(
        &place,
        "echo x > /.sandbox/guest || rm -f /.sandbox/guest; ls /.sandbox",
    )
    .await;
    assert_eq!(said, "guest\n");
    place.stop().await.unwrap();
    docker.backend.remove(&id(1)).await.unwrap();
}

#[tokio::test]
async fn the_kernel_enforces_the_limits_that_were_changed() {
    let Some(docker) = Docker::new() else { return };
    let place = docker.start(1).await;
    let mut spec = SandboxSpec::default();
    spec.limits.memory = ByteSize::mib(100);
    spec.limits.pids = 40;
    place.adapt(&spec).await.unwrap();
    let said = says(
        &place,
        "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes \
         /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null",
    )
    .await;
    assert_eq!(said, "104857600\n40\n");
    place.stop().await.unwrap();
    docker.backend.remove(&id(1)).await.unwrap();
}

#[tokio::test]
async fn a_service_leaves_alone_what_is_anothers() {
    let (Some(mine), Some(theirs)) = (Docker::new(), Docker::new()) else {
        return;
    };
    let place = theirs.start(1).await;
    assert_eq!(mine.backend.list().await.unwrap(), []);
    // The same id, and yet another sandbox.
    let own = mine.start(1).await;
    says(&own, "echo mine > f").await;
    mine.backend.remove(&id(2)).await.unwrap();
    own.stop().await.unwrap();
    mine.backend.remove(&id(1)).await.unwrap();
    assert_eq!(says(&place, "ls; echo on").await, "on\n");
    assert_eq!(theirs.volumes().len(), 1);
    place.stop().await.unwrap();
    theirs.backend.remove(&id(1)).await.unwrap();
}

/// Nothing is left on the machine either: no process of a container that has ended.
#[tokio::test]
async fn an_end_leaves_no_process() {
    let Some(docker) = Docker::new() else { return };
    let place = docker.start(1).await;
    says(&place, "setsid sleep 7654 >/dev/null 2>&1 &").await;
    let running = || {
        let found = Command::new("pgrep").args(["-f", "sleep 7654"]).status();
        found.unwrap().success()
    };
    assert!(running());
    place.stop().await.unwrap();
    assert!(!running());
    docker.backend.remove(&id(1)).await.unwrap();
}

/// Callers reach the loopback of sandboxes, so no other may be behind it.
#[tokio::test]
async fn the_hosts_network_or_anothers_is_refused() {
    for network in ["host", "container:abc"] {
        let Some(docker) = Docker::with(|config| config.network = Some(network.to_owned())) else {
            return;
        };
        let refused = docker.backend.create(&id(1), &SandboxSpec::default()).await;
        let refused = refused.err().unwrap().detail().to_owned();
        assert!(refused.contains("no network of its own"), "{refused}");
        assert!(!docker.backend.check().await.ready());
    }
}
