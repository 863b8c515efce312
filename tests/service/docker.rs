//! The service with Docker sandboxes.

use std::{
    process::{Command, Stdio},
    thread,
};

use serde_json::json;

use crate::support::{Service, until};

/// A service whose sandboxes are containers of the tests' daemon.
struct Docker {
    service: Service,
    host: &'static str,
}

impl Docker {
    /// `None` where there is no daemon, which has been said.
    fn start(settings: &[(&str, &str)]) -> Option<Self> {
        let host = test_docker::host()?;
        let mut all = vec![
            ("SANDBOX_BACKEND", "docker"),
            ("SANDBOX_DOCKER_HOST", host),
            ("SANDBOX_DOCKER_PULL", "never"),
            ("SANDBOX_WORKER_IMAGE", test_docker::IMAGE),
        ];
        all.extend_from_slice(settings);
        let service = Service::start_with(&all);
        Some(Self { service, host })
    }

    fn filter(&self) -> String {
        let instance = std::fs::read_to_string(self.service.state().join("instance")).unwrap();
        format!("label=dev.sandboxd.owner={}", instance.trim())
    }

    fn containers(&self) -> Vec<String> {
        let kind = "label=dev.sandboxd.kind=sandbox";
        let filters = ["ps", "-aq", "--filter", &self.filter(), "--filter", kind];
        let ids = test_docker::docker(self.host, &filters);
        ids.lines().map(str::to_owned).collect()
    }

    fn volumes(&self) -> usize {
        let filter = self.filter();
        let kind = "label=dev.sandboxd.kind=sandbox";
        let filters = ["volume", "ls", "-q", "--filter", &filter, "--filter", kind];
        test_docker::docker(self.host, &filters).lines().count()
    }
}

/// A killed service leaves its containers.
impl Drop for Docker {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        self.service.terminate();
        self.service.wait();
        assert_eq!(self.containers(), Vec::<String>::new());
        let filter = self.filter();
        let names = test_docker::docker(self.host, &["volume", "ls", "-q", "--filter", &filter]);
        // Workspaces alone: the guest's volume goes with the service.
        assert!(!names.contains("-guest-"), "{names}");
        for name in names.lines() {
            test_docker::docker(self.host, &["volume", "rm", name]);
        }
    }
}

#[test]
fn a_session_is_a_container_and_its_workspace_a_volume() {
    let Some(docker) = Docker::start(&[]) else {
        return;
    };
    let service = &docker.service;
    let answer = service.python("print(6 * 7); open('f', 'w').write('x')");
    assert_eq!(answer.stdout(), "42\n");
    let meta = &answer.body["meta"];
    assert_eq!(
        (&meta["backend"], &meta["enforcement"]["memory"]),
        (&json!("docker"), &json!("docker"))
    );
    assert_eq!(answer.body["artifacts"][0]["name"], "f");
    assert_eq!((docker.containers().len(), docker.volumes()), (1, 1));
    let read = service.post("/read", json!({"session_id": "s", "path": "f"}));
    assert_eq!(read.body["content"], "x");
    let usage = &service.get("/sessions/default/s").body["usage"];
    for key in ["memory_bytes", "cpu_seconds", "pids", "disk_bytes"] {
        assert!(usage[key].as_f64().unwrap() > 0.0, "{usage}");
    }
    let bomb = service.python("keep = []\nwhile True: keep.append(bytearray(1 << 20))");
    assert_eq!(
        (&bomb.body["exit_code"], &bomb.body["meta"]["oom_killed"]),
        (&json!(137), &json!(true))
    );
    assert_eq!(service.delete("/sessions/default/s").status, 204);
    assert_eq!((docker.containers().len(), docker.volumes()), (0, 0));
    // A run of its own leaves nothing.
    let alone = service.post("/bash", json!({"command": "echo alone"}));
    assert_eq!(alone.stdout(), "alone\n");
    until("its container and volume are gone", || {
        (docker.containers().len(), docker.volumes()) == (0, 0)
    });
}

#[test]
fn after_kill_9_sessions_run_on() {
    let Some(mut docker) = Docker::start(&[]) else {
        return;
    };
    docker
        .service
        .bash("(while :; do date +%s%N > ticks; sleep 0.1; done) >/dev/null 2>&1 &");
    let before = docker.containers();
    docker.service.restart();
    until("it runs, though nobody has called", || {
        docker.service.get("/sessions/default/s").body["state"] == "running"
    });
    assert_eq!(docker.containers(), before);
    let said = docker
        .service
        .bash("a=$(cat ticks); sleep 0.5; [ \"$a\" != \"$(cat ticks)\" ] && echo on");
    assert_eq!(said.stdout(), "on\n");
    assert_eq!(said.body["meta"]["session_created"], false);
    assert_eq!(docker.service.delete("/sessions/default/s").status, 204);
    assert_eq!((docker.containers().len(), docker.volumes()), (0, 0));
}

#[test]
fn after_a_stop_no_container_is_left_and_workspaces_are() {
    let Some(mut docker) = Docker::start(&[("SANDBOX_POOL_SIZE", "1")]) else {
        return;
    };
    docker.service.bash("echo kept > f");
    docker.service.terminate();
    docker.service.wait();
    assert_eq!((docker.containers().len(), docker.volumes()), (0, 1));
    docker.service.restart();
    assert_eq!(docker.service.bash("cat f").stdout(), "kept\n");
}

#[test]
fn a_container_that_somebody_removes_is_healed_by_the_next_call() {
    let Some(docker) = Docker::start(&[]) else {
        return;
    };
    docker.service.bash("echo kept > f");
    test_docker::docker(docker.host, &["rm", "-f", &docker.containers()[0]]);
    let healed = docker.service.bash("cat f");
    assert_eq!(healed.stdout(), "kept\n");
    assert_eq!(healed.body["meta"]["session_created"], true);
}

#[test]
fn a_new_session_takes_a_warm_container() {
    let Some(docker) = Docker::start(&[("SANDBOX_POOL_SIZE", "2"), ("SANDBOX_MAX_SESSIONS", "3")])
    else {
        return;
    };
    let service = &docker.service;
    let ready = || service.metric("sandbox_pool_ready{backend=\"docker\"}");
    until("the pool is full", || ready() == 2.0);
    let warm = docker.containers();
    assert_eq!(service.bash("echo on").stdout(), "on\n");
    until("another is ready", || ready() == 2.0);
    let now = docker.containers();
    assert!(warm.iter().all(|id| now.contains(id)), "{warm:?} {now:?}");
    // With the limits and the environment that were asked for.
    let asked = json!({"limits": {"memory": "64m", "pids": 50}, "env": {"GIVEN": "yes"}});
    assert_eq!(service.post("/sessions/default/asked", asked).status, 201);
    let command = "echo $GIVEN; cat /sys/fs/cgroup/memory.max \
                   /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null";
    let said = service.post("/bash", json!({"session_id": "asked", "command": command}));
    assert_eq!(said.stdout(), "yes\n67108864\n");
    // Sessions come first, up to the ceiling.
    let third = service.post("/bash", json!({"session_id": "third", "command": "echo 3"}));
    assert_eq!(third.stdout(), "3\n");
    let fourth = service.post(
        "/bash",
        json!({"session_id": "fourth", "command": "echo 4"}),
    );
    assert_eq!(
        (fourth.status, fourth.code()),
        (429, "session_limit_reached")
    );
    assert_eq!(docker.containers().len(), 3);
}

#[test]
fn fifty_sessions_leave_nothing() {
    let Some(docker) = Docker::start(&[("SANDBOX_POOL_SIZE", "4")]) else {
        return;
    };
    let service = &docker.service;
    thread::scope(|scope| {
        for worker in 0..5 {
            scope.spawn(move || {
                for n in 0..10 {
                    let session = format!("s{worker}-{n}");
                    let body = json!({"session_id": session, "command": "echo $((6 * 7)) | tee f"});
                    assert_eq!(service.post("/bash", body).stdout(), "42\n");
                    let path = format!("/sessions/default/{session}");
                    assert_eq!(service.delete(&path).status, 204);
                }
            });
        }
    });
    assert_eq!(service.get("/sessions").body["sessions"], json!([]));
    docker.service.terminate();
    until("nothing is left", || {
        (docker.containers().len(), docker.volumes()) == (0, 0)
    });
}

#[test]
fn what_is_not_offered_is_refused() {
    let Some(docker) = Docker::start(&[]) else {
        return;
    };
    for asked in [
        json!({"image": "somebody/else:latest"}),
        json!({"network": "allow_all"}),
        json!({"network": {"allow": ["example.com"]}}),
        json!({"capabilities": ["gpu"]}),
        json!({"mounts": [{"source": "/", "target": "/host", "mode": "rw"}]}),
    ] {
        let answer = docker.service.post("/sessions/default/s", asked.clone());
        assert_eq!(
            (answer.status, answer.code()),
            (422, "unsupported"),
            "{asked}"
        );
    }
    assert_eq!((docker.containers().len(), docker.volumes()), (0, 0));
    let named = json!({"image": test_docker::IMAGE});
    let made = docker.service.post("/sessions/default/s", named);
    assert_eq!(
        (made.status, &made.body["image"]),
        (201, &json!(test_docker::IMAGE))
    );
    let backends = docker.service.get("/backends").body;
    assert_eq!(backends["backends"][0]["name"], "docker", "{backends}");
    assert_eq!(backends["backends"][0]["ready"], true, "{backends}");
}

#[test]
fn without_a_daemon_the_service_says_what_to_do() {
    let state = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sandboxd"))
        .arg("serve")
        .env("SANDBOX_STATE_DIR", state.path())
        .env("SANDBOX_LISTEN", "127.0.0.1:0")
        .env("SANDBOX_BACKEND", "docker")
        .env("SANDBOX_DOCKER_HOST", "unix:///nowhere/docker.sock")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("Docker daemon") && said.contains("docker_host"),
        "{said}"
    );
}

#[test]
fn the_doctor_asks_the_daemon() {
    let Some(host) = test_docker::host() else {
        return;
    };
    let doctor = |host: &str, image: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_sandboxd"))
            .arg("doctor")
            .env("SANDBOX_BACKEND", "docker")
            .env("SANDBOX_DOCKER_HOST", host)
            .env("SANDBOX_DOCKER_PULL", "never")
            .env("SANDBOX_WORKER_IMAGE", image)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), said)
    };
    let (well, said) = doctor(host, test_docker::IMAGE);
    assert!(well && said.starts_with("ok "), "{said}");
    let (well, said) = doctor(host, "no-such-image:latest");
    assert!(!well && said.contains("no-such-image"), "{said}");
    let (well, said) = doctor("unix:///nowhere/docker.sock", test_docker::IMAGE);
    assert!(!well && said.contains("docker_host"), "{said}");
}

#[test]
fn processes_run_in_containers_too() {
    let Some(docker) = Docker::start(&[]) else {
        return;
    };
    let client = docker.service.client();
    let body = json!({"session_id": "s", "command": "read line; echo \"got $line\""});
    let started = client.post("/processes", body);
    assert_eq!(started.status, 201, "{}", started.body);
    let id = started.body["process_id"].as_str().unwrap();
    let stdin = client.post(
        &format!("/processes/{id}/stdin"),
        json!({"data": "a line\n"}),
    );
    assert_eq!(stdin.status, 204, "{}", stdin.body);
    let mut events = client.events("GET", &format!("/processes/{id}/output"), None);
    let printed: String = events
        .rest()
        .iter()
        .filter(|event| event.name == "stdout")
        .map(|event| event.data["text"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(printed, "got a line\n");
}
