//! What the service does, through the gate.

use std::{collections::HashMap, time::Duration};

use bollard::{
    container::LogOutput,
    models::{ContainerUpdateBody, HostConfig},
    query_parameters::{
        AttachContainerOptionsBuilder, EventsOptions, EventsOptionsBuilder,
        InspectContainerOptions, KillContainerOptionsBuilder, ListContainersOptionsBuilder,
        ListVolumesOptions, RemoveVolumeOptions, StartContainerOptions,
        WaitContainerOptionsBuilder,
    },
};
use docker_gate::{GateLimits, Policy};
use futures::StreamExt as _;
use tokio::{io::AsyncWriteExt as _, time::timeout};

use crate::support::{Gate, gate, gate_with, image, status};

const LIMIT: Duration = Duration::from_secs(30);

fn attach() -> bollard::query_parameters::AttachContainerOptions {
    AttachContainerOptionsBuilder::default()
        .stream(true)
        .stdin(true)
        .stdout(true)
        .stderr(true)
        .build()
}

/// A sandbox with this script as its guest, made but not started.
async fn sandbox(gate: &Gate, script: &str) -> String {
    let guest = gate.guest(script).await;
    let workspace = gate.make_volume("workspace").await;
    gate.create("sandbox", gate.sandbox(&guest, &workspace))
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_lives_and_its_stream_goes_both_ways() {
    let policy = Policy::default().with_image(&image()).unwrap();
    let Some(gate) = gate(policy).await else {
        return;
    };
    let docker = &gate.docker;
    assert!(docker.clone().negotiate_version().await.is_ok());
    docker.ping().await.unwrap();
    docker.info().await.unwrap();
    docker.inspect_image(&image()).await.unwrap();
    let id = sandbox(&gate, "#!/bin/sh\necho ready >&2\nexec cat\n").await;

    let mut attached = docker.attach_container(&id, Some(attach())).await.unwrap();
    docker
        .start_container(&id, None::<StartContainerOptions>)
        .await
        .unwrap();
    let ready = timeout(LIMIT, attached.output.next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(matches!(ready, LogOutput::StdErr { .. }), "{ready:?}");

    // More than any buffer on the way holds.
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let copy = sent.clone();
    let mut input = attached.input;
    let writer = tokio::spawn(async move {
        input.write_all(&copy).await.unwrap();
        // The end of one way alone: `cat` has more to say.
        input.shutdown().await.unwrap();
        input
    });
    let mut received = Vec::new();
    timeout(LIMIT, async {
        while let Some(Ok(part)) = attached.output.next().await {
            received.extend_from_slice(&part.into_bytes());
        }
    })
    .await
    .unwrap();
    drop(writer.await.unwrap());
    assert_eq!(received.len(), sent.len());
    assert!(received == sent, "the bytes are others");

    let condition = WaitContainerOptionsBuilder::default()
        .condition("not-running")
        .build();
    let ended = docker
        .wait_container(&id, Some(condition))
        .next()
        .await
        .unwrap();
    assert_eq!(ended.unwrap().status_code, 0);
    gate.remove(&id).await.unwrap();
    assert_eq!(status(gate.remove(&id).await).0, 404);
    for volume in ["guest", "workspace"] {
        let none = None::<RemoveVolumeOptions>;
        docker
            .remove_volume(&gate.named(volume), none)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_is_listed_changed_and_killed() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let docker = &gate.docker;
    let id = sandbox(&gate, "#!/bin/sh\nexec sleep 600\n").await;
    let name = gate.named("sandbox");
    docker
        .start_container(&id, None::<StartContainerOptions>)
        .await
        .unwrap();

    let filters = HashMap::from([("label", vec!["dev.sandboxd.owner=gate-test"])]);
    let options = ListContainersOptionsBuilder::default()
        .all(true)
        .filters(&filters)
        .build();
    let found = docker.list_containers(Some(options)).await.unwrap();
    assert!(found.iter().any(|found| found.id.as_deref() == Some(&id)));
    let found = docker
        .list_volumes(None::<ListVolumesOptions>)
        .await
        .unwrap();
    assert!(
        found
            .volumes
            .unwrap()
            .iter()
            .any(|volume| volume.name == gate.named("workspace"))
    );

    let change = ContainerUpdateBody {
        memory: Some(128 << 20),
        memory_swap: Some(128 << 20),
        pids_limit: Some(32),
        ..Default::default()
    };
    docker.update_container(&name, change).await.unwrap();
    let seen = docker
        .inspect_container(&name, None::<InspectContainerOptions>)
        .await
        .unwrap();
    let HostConfig {
        memory, pids_limit, ..
    } = seen.host_config.unwrap();
    assert_eq!((memory, pids_limit), (Some(128 << 20), Some(32)));

    // What is asked for by events comes as it happens.
    let filters = HashMap::from([
        ("container", vec![id.as_str()]),
        ("event", vec!["die"]),
        ("label", vec!["dev.sandboxd.kind"]),
    ]);
    let options: EventsOptions = EventsOptionsBuilder::default()
        .since("0")
        .filters(&filters)
        .build();
    let mut events = docker.events(Some(options));
    let signal = KillContainerOptionsBuilder::default()
        .signal("KILL")
        .build();
    docker.kill_container(&id, Some(signal)).await.unwrap();
    let event = timeout(LIMIT, events.next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(event.action.as_deref(), Some("die"));
    gate.remove(&name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workspace_is_given_to_its_user() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let guest = gate
        .guest("#!/bin/sh\nid -u; stat -c %u /workspace; touch /workspace/x && echo ok\n")
        .await;
    let workspace = gate.make_volume("workspace").await;
    let helper = gate
        .create("giver", gate.helper(&workspace, "/workspace"))
        .await
        .unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_mode(0o755);
    header.set_uid(65532);
    header.set_gid(65532);
    header.set_size(0);
    let mut archive = tar::Builder::new(Vec::new());
    archive
        .append_data(&mut header, "workspace", std::io::empty())
        .unwrap();
    gate.put(&helper, "/", archive.into_inner().unwrap())
        .await
        .unwrap();
    gate.remove(&helper).await.unwrap();

    let id = gate
        .create("sandbox", gate.sandbox(&guest, &workspace))
        .await
        .unwrap();
    let mut attached = gate
        .docker
        .attach_container(&id, Some(attach()))
        .await
        .unwrap();
    gate.docker
        .start_container(&id, None::<StartContainerOptions>)
        .await
        .unwrap();
    let mut said = Vec::new();
    timeout(LIMIT, async {
        while let Some(Ok(part)) = attached.output.next().await {
            said.extend_from_slice(&part.into_bytes());
        }
    })
    .await
    .unwrap();
    assert_eq!(String::from_utf8(said).unwrap(), "65532\n65532\nok\n");
    gate.remove(&id).await.unwrap();
}

/// The stream of a sandbox that says back what it is told, once it has.
async fn echo(gate: &Gate) -> bollard::container::AttachContainerResults {
    let id = sandbox(gate, "#!/bin/sh\nexec cat\n").await;
    let mut attached = gate
        .docker
        .attach_container(&id, Some(attach()))
        .await
        .unwrap();
    // Past the gate: it may take no more connections.
    gate.daemon
        .start_container(&id, None::<StartContainerOptions>)
        .await
        .unwrap();
    attached.input.write_all(b"hello").await.unwrap();
    let said = timeout(LIMIT, attached.output.next()).await.unwrap();
    assert_eq!(said.unwrap().unwrap().into_bytes(), "hello");
    attached
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_a_connection_as_long_as_it_lives() {
    let limits = GateLimits {
        max_connections: 1,
        ..GateLimits::default()
    };
    let Some(gate) = gate_with(Policy::default(), limits).await else {
        return;
    };
    let mut attached = echo(&gate).await;
    let ping = gate.docker.ping();
    let waits = timeout(Duration::from_secs(1), ping).await;
    assert!(waits.is_err(), "one more was taken: {waits:?}");
    attached.input.shutdown().await.unwrap();
    timeout(LIMIT, async {
        while attached.output.next().await.is_some() {}
    })
    .await
    .unwrap();
    drop(attached);
    timeout(LIMIT, gate.docker.ping()).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_with_the_gate() {
    let Some(mut gate) = gate(Policy::default()).await else {
        return;
    };
    let mut attached = echo(&gate).await;
    gate.end();
    timeout(LIMIT, async {
        while let Some(Ok(_)) = attached.output.next().await {}
    })
    .await
    .unwrap();
    assert!(gate.docker.ping().await.is_err());
}
