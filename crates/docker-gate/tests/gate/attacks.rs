//! What somebody tries who has taken the service over, to become the host's root.

use std::collections::HashMap;

use bollard::{
    Docker,
    models::{
        ContainerCreateBody, ContainerUpdateBody, DeviceMapping, ExecConfig, HostConfig, Mount,
        MountType, MountVolumeOptions, MountVolumeOptionsDriverConfig, VolumeCreateRequest,
    },
    query_parameters::{
        AttachContainerOptions, CreateContainerOptionsBuilder, InspectContainerOptions,
        KillContainerOptions, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
        RemoveVolumeOptions, StartContainerOptions, WaitContainerOptions,
    },
};
use docker_gate::Policy;
use futures::StreamExt as _;
use serde_json::json;

use crate::support::{Gate, file, gate, image, labels, status};

type Change = fn(&mut ContainerCreateBody, &mut HostConfig);

/// Each makes a container of ours into a way out.
const ESCAPES: &[(&str, Change)] = &[
    ("a bind mount of /", |_, host| {
        host.binds = Some(vec!["/:/host".into()])
    }),
    ("a mount of /", |_, host| {
        host.mounts = Some(vec![Mount {
            typ: Some(MountType::BIND),
            source: Some("/".into()),
            target: Some("/workspace".into()),
            ..Default::default()
        }]);
    }),
    ("a volume with a driver's options", |_, host| {
        let mount = &mut host.mounts.as_mut().unwrap()[0];
        mount.volume_options = Some(MountVolumeOptions {
            driver_config: Some(MountVolumeOptionsDriverConfig {
                name: Some("local".into()),
                options: Some(HashMap::from([
                    ("type".into(), "none".into()),
                    ("o".into(), "bind".into()),
                    ("device".into(), "/".into()),
                ])),
            }),
            ..Default::default()
        });
    }),
    ("privileged", |_, host| host.privileged = Some(true)),
    ("a capability", |_, host| {
        host.cap_add = Some(vec!["SYS_ADMIN".into()])
    }),
    ("all of Docker's capabilities", |_, host| {
        host.cap_drop = None
    }),
    ("the host's processes", |_, host| {
        host.pid_mode = Some("host".into())
    }),
    ("the host's network", |_, host| {
        host.network_mode = Some("host".into())
    }),
    ("Docker's default network", |_, host| {
        host.network_mode = None
    }),
    ("the host's IPC", |_, host| {
        host.ipc_mode = Some("host".into())
    }),
    ("the host's users", |_, host| {
        host.userns_mode = Some("host".into())
    }),
    ("a device", |_, host| {
        host.devices = Some(vec![DeviceMapping {
            path_on_host: Some("/dev/kmsg".into()),
            path_in_container: Some("/dev/kmsg".into()),
            cgroup_permissions: Some("rwm".into()),
        }]);
    }),
    ("all devices", |_, host| {
        host.device_cgroup_rules = Some(vec!["a *:* rwm".into()])
    }),
    ("another container's volumes", |_, host| {
        host.volumes_from = Some(vec!["x".into()])
    }),
    ("no seccomp", |_, host| {
        host.security_opt = Some(vec![
            "no-new-privileges:true".into(),
            "seccomp=unconfined".into(),
        ]);
    }),
    ("a seccomp profile that permits all", |_, host| {
        let profile = r#"seccomp={"defaultAction":"SCMP_ACT_ALLOW"}"#;
        host.security_opt = Some(vec!["no-new-privileges:true".into(), profile.into()]);
    }),
    ("new privileges", |_, host| host.security_opt = None),
    ("no mask over /proc", |_, host| {
        host.security_opt = Some(vec![
            "no-new-privileges:true".into(),
            "systempaths=unconfined".into(),
        ]);
    }),
    ("a sysctl", |_, host| {
        host.sysctls = Some(HashMap::from([("kernel.msgmax".into(), "1".into())]));
    }),
    ("a cgroup of its own choice", |_, host| {
        host.cgroup_parent = Some("/".into())
    }),
    ("another runtime", |_, host| {
        host.runtime = Some("runc".into())
    }),
    ("any number of processes", |_, host| {
        host.pids_limit = Some(-1)
    }),
    ("a published port", |_, host| {
        host.publish_all_ports = Some(true)
    }),
    ("a start of its own", |_, host| {
        host.restart_policy = Some(bollard::models::RestartPolicy {
            name: Some(bollard::models::RestartPolicyNameEnum::ALWAYS),
            maximum_retry_count: None,
        });
    }),
    ("root", |body, _| body.user = Some("0:0".into())),
    ("the image's user", |body, _| body.user = None),
    ("a program of the image", |body, _| {
        body.entrypoint = Some(vec!["/bin/sh".into()])
    }),
    ("a descriptor of runc's", |body, _| {
        body.working_dir = Some("/proc/self/fd/7".into())
    }),
    ("a library for hooks of the runtime", |body, _| {
        body.env = Some(vec!["LD_PRELOAD=./x.so".into()]);
    }),
    ("no label", |body, _| body.labels = None),
    ("an order to another program", |body, _| {
        let labels = body.labels.as_mut().unwrap();
        labels.insert("ofelia.enabled".into(), "true".into());
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_container_is_a_way_out() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let guest = gate.make_volume("guest").await;
    let workspace = gate.make_volume("workspace").await;
    for (what, change) in ESCAPES {
        let mut body = gate.sandbox(&guest, &workspace);
        let mut host = body.host_config.take().unwrap();
        change(&mut body, &mut host);
        body.host_config = Some(host);
        let (status, message) = status(gate.create("escape", body).await);
        assert_eq!(status, 403, "{what}: {message}");
        assert!(message.starts_with("docker-gate: "), "{what}: {message}");
    }
    // And without any of it, it is made.
    gate.create("sandbox", gate.sandbox(&guest, &workspace))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_permitted_images_are_run() {
    let policy = Policy::default().with_image("other").unwrap();
    let Some(gate) = gate(policy).await else {
        return;
    };
    let guest = gate.make_volume("guest").await;
    let body = gate.sandbox(&guest, &guest);
    assert_eq!(status(gate.create("sandbox", body).await).0, 403);
    assert_eq!(status(gate.docker.inspect_image(&image()).await).0, 403);
}

/// A container that somebody else made on the daemon.
async fn of_another(gate: &Gate, name: &str, labels: Option<HashMap<String, String>>) -> String {
    let mut body = gate.sandbox("x", "x");
    body.host_config = None;
    body.labels = labels;
    let options = CreateContainerOptionsBuilder::default().name(name).build();
    gate.daemon
        .create_container(Some(options), body)
        .await
        .unwrap()
        .id
}

/// All that can be tried on a container; each is refused.
async fn is_out_of_reach(docker: &Docker, container: &str) {
    let refused = |(status, message): (u16, String)| assert_eq!(status, 403, "{message}");
    refused(status(
        docker
            .start_container(container, None::<StartContainerOptions>)
            .await,
    ));
    refused(status(
        docker
            .kill_container(container, None::<KillContainerOptions>)
            .await,
    ));
    let none = None::<InspectContainerOptions>;
    refused(status(docker.inspect_container(container, none).await));
    let force = RemoveContainerOptionsBuilder::default().force(true).build();
    refused(status(
        docker.remove_container(container, Some(force)).await,
    ));
    let change = ContainerUpdateBody {
        memory: Some(1 << 30),
        ..Default::default()
    };
    refused(status(docker.update_container(container, change).await));
    let none = None::<WaitContainerOptions>;
    refused(status(
        docker.wait_container(container, none).next().await.unwrap(),
    ));
    let none = None::<AttachContainerOptions>;
    let attached = docker.attach_container(container, none).await;
    assert!(attached.is_err(), "attached to {container}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_peoples_containers_are_out_of_reach() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let plain = gate.name.replace("sandboxd-", "other-");
    // Neither the name alone makes it ours, nor the label.
    let by_name = gate.named("name");
    let foreign = of_another(&gate, &plain, Some(labels())).await;
    let named = of_another(&gate, &by_name, None).await;
    for container in [&foreign, &named, &plain, &by_name] {
        is_out_of_reach(&gate.docker, container).await;
        assert_eq!(
            status(gate.put(container, "/", file("x", b"")).await).0,
            403
        );
    }
    for id in [&foreign, &named] {
        // The beginning of an id is not taken as one.
        is_out_of_reach(&gate.docker, &id[..12]).await;
        let options = RemoveContainerOptionsBuilder::default().force(true).build();
        gate.daemon
            .remove_container(id, Some(options))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_do_not_tell_of_others() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let other = of_another(&gate, &gate.named("unlabelled"), None).await;
    for filters in [
        HashMap::new(),
        HashMap::from([("name", vec!["sandboxd-"])]),
        HashMap::from([("label", vec![])]),
    ] {
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&filters)
            .build();
        let found = gate.docker.list_containers(Some(options)).await.unwrap();
        assert!(
            found
                .iter()
                .all(|found| found.id.as_deref() != Some(&other))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_no_path_of_the_host() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let device = HashMap::from([
        ("type".to_owned(), "none".to_owned()),
        ("o".to_owned(), "bind".to_owned()),
        ("device".to_owned(), "/".to_owned()),
    ]);
    let volume = VolumeCreateRequest {
        name: Some(gate.named("device")),
        labels: Some(labels()),
        driver_opts: Some(device.clone()),
        ..Default::default()
    };
    let made = gate.docker.create_volume(volume.clone()).await;
    assert_eq!(status(made).0, 403);

    // Made by somebody else, it is not mounted either, labels or not.
    gate.daemon.create_volume(volume).await.unwrap();
    let unlabelled = VolumeCreateRequest {
        name: Some(gate.named("unlabelled")),
        ..Default::default()
    };
    gate.daemon.create_volume(unlabelled).await.unwrap();
    for name in ["device", "unlabelled"] {
        let name = gate.named(name);
        let body = gate.helper(&name, "/workspace");
        assert_eq!(status(gate.create("helper", body).await).0, 403);
        assert_eq!(status(gate.docker.inspect_volume(&name).await).0, 403);
        let none = None::<RemoveVolumeOptions>;
        assert_eq!(status(gate.docker.remove_volume(&name, none).await).0, 403);
    }
    // One that is not there would be made by the daemon, without a label.
    let body = gate.helper(&gate.named("absent"), "/workspace");
    assert_eq!(status(gate.create("helper", body).await).0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_never_runs_whatever_is_put_into_it() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let volume = gate.make_volume("workspace").await;
    let helper = gate
        .create("helper", gate.helper(&volume, "/workspace"))
        .await
        .unwrap();
    let script = b"#!/bin/sh\nid\n";
    for path in ["/", "/workspace", "/.sandbox"] {
        let put = gate.put(&helper, path, file("../none", script)).await;
        assert_eq!(status(put).0, 403, "{path}");
    }
    assert_eq!(
        status(gate.put(&helper, "/", file("none", script)).await).0,
        403
    );
    assert_eq!(
        status(gate.put(&helper, "/etc", file("x", script)).await).0,
        403
    );
    gate.put(&helper, "/workspace", file("none", script))
        .await
        .unwrap();
    let none = None::<StartContainerOptions>;
    assert_eq!(
        status(gate.docker.start_container(&helper, none).await).0,
        403
    );
    // And nothing is written, as root, to what runs.
    let guest = gate.guest("#!/bin/sh\nexec sleep 60\n").await;
    let id = gate
        .create("sandbox", gate.sandbox(&guest, &volume))
        .await
        .unwrap();
    assert_eq!(
        status(gate.put(&id, "/workspace", file("x", script)).await).0,
        403
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_is_run_in_a_container() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let guest = gate.guest("#!/bin/sh\nexec sleep 60\n").await;
    let id = gate.create("sandbox", gate.sandbox(&guest, &guest)).await;
    let id = id.unwrap();
    let none = None::<StartContainerOptions>;
    gate.docker.start_container(&id, none).await.unwrap();
    let exec = ExecConfig {
        cmd: Some(vec!["id".into()]),
        privileged: Some(true),
        user: Some("0".into()),
        ..Default::default()
    };
    assert_eq!(
        status(gate.docker.create_exec(&id, exec.clone()).await).0,
        403
    );
    // One that somebody else made is not started.
    let made = gate.daemon.create_exec(&id, exec).await.unwrap();
    let answer = gate.post(&format!("/exec/{}/start", made.id), "{}").await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_the_daemon_reads_otherwise_is_refused() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let guest = gate.make_volume("guest").await;
    let name = gate.named("escape");
    let good = serde_json::to_value(gate.sandbox(&guest, &guest)).unwrap();
    let path = format!("/containers/create?name={name}");
    let text = good.to_string();
    let host = text.find(r#""HostConfig":{"#).unwrap() + r#""HostConfig":{"#.len();
    let with = |more: &str| format!("{}{more},{}", &text[..host], &text[host..]);
    for (more, expected) in [
        // The last of two is what the daemon takes, in whatever case.
        (r#""Privileged":true"#, 400),
        (r#""privileged":true"#, 400),
        (r#""PRIVILEGED":true"#, 400),
        (r#""binds":["/:/host"]"#, 403),
        (r#""Binds":["/:/host"]"#, 403),
        (r#""\u0042inds":["/:/host"]"#, 403),
        (r#""bind\u017f":["/:/host"]"#, 403),
        (r#""Binds":["/:/host"],"Binds":null"#, 400),
        (r#""Binds":null,"binds":["/:/host"]"#, 400),
        (
            r#""mounts":[{"Type":"bind","Source":"/","Target":"/x"}]"#,
            400,
        ),
        (r#""capadd":["ALL"]"#, 403),
    ] {
        let answer = gate.post(&path, &with(more)).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {expected} ")),
            "{more}: {answer}"
        );
    }
    for body in [
        format!("{text}{text}"),
        format!("{text}x"),
        json!([good]).to_string(),
        format!("\u{feff}{text}"),
        text.replace("\"none\"", "\"no\\u0000ne\""),
    ] {
        let answer = gate.post(&path, &body).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    let answer = gate.post(&path, &text).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_keeps_its_limits() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let guest = gate.make_volume("guest").await;
    let id = gate
        .create("sandbox", gate.sandbox(&guest, &guest))
        .await
        .unwrap();
    for body in [
        json!({"PidsLimit": -1}),
        json!({"MemorySwap": -1}),
        json!({"CpuShares": 1024}),
        json!({"RestartPolicy": {"Name": "always"}}),
        json!({"Devices": [{"PathOnHost": "/dev/kmsg"}]}),
        json!({"CgroupParent": "/"}),
    ] {
        let path = format!("/containers/{id}/update");
        let answer = gate.post(&path, &body.to_string()).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{body}: {answer}");
    }
}
