//! What a program may take of the machine.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::Service;

/// Whether the machine lets the service count memory and processes by cgroup.
fn cgroups(service: &Service) -> bool {
    let answer = service.get("/backends");
    let enforcement = &answer.body["backends"][0]["enforcement"];
    let by_cgroup = |limit: &str| enforcement[limit].as_str().unwrap().starts_with("cgroup");
    by_cgroup("memory") && by_cgroup("pids")
}

/// Asks for /healthz until `done`, and gives the slowest answer.
fn slowest_healthz(service: &Service, done: impl Fn() -> bool) -> Duration {
    let mut slowest = Duration::ZERO;
    while !done() {
        let began = Instant::now();
        assert_eq!(service.get("/healthz").status, 200);
        slowest = slowest.max(began.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    slowest
}

#[test]
fn a_memory_bomb_is_killed_and_said_to_be() {
    let service = Service::start_with(&[("SANDBOX_MEM_LIMIT", "128m")]);
    service.bash("true");
    let answer = std::thread::scope(|scope| {
        let bomb =
            scope.spawn(|| service.python("x = []\nwhile True: x.append(bytearray(10_000_000))"));
        let slowest = slowest_healthz(&service, || bomb.is_finished());
        assert!(slowest < Duration::from_secs(2), "{slowest:?}");
        bomb.join().unwrap()
    });
    assert_eq!(answer.status, 200, "{}", answer.body);
    if cgroups(&service) {
        assert_eq!(answer.body["exit_code"], 137);
        assert_eq!(answer.body["meta"]["oom_killed"], true);
        assert_eq!(answer.body["meta"]["termination"], "out_of_memory");
    } else {
        assert!(
            answer.body["stderr"]
                .as_str()
                .unwrap()
                .contains("MemoryError")
        );
    }
    let after = service.bash("echo alive");
    assert_eq!(
        (after.stdout(), &after.body["meta"]["session_created"]),
        ("alive\n", &json!(false))
    );
}

#[test]
fn tmpfs_is_sized_and_counts_as_memory() {
    let service = Service::start_with(&[("SANDBOX_TMP_LIMIT", "8m")]);
    for dir in ["/tmp", "/var/tmp", "/dev/shm"] {
        let answer = service.bash(&format!(
            "head -c 20000000 /dev/zero > {dir}/x; stat -c %s {dir}/x; rm {dir}/x"
        ));
        let size: u64 = answer.stdout().trim().parse().unwrap();
        assert!(size <= 8 << 20, "{dir}: {size}");
    }
}

#[test]
fn a_fork_bomb_stays_in_its_sandbox() {
    let service = Service::start_with(&[("SANDBOX_PIDS_LIMIT", "64")]);
    service.bash("true");
    let answer = std::thread::scope(|scope| {
        let bomb = scope.spawn(|| {
            service.post(
                "/bash",
                json!({"session_id": "s", "timeout_seconds": 3, "command": "b() { b | b & b; }; b"}),
            )
        });
        let slowest = slowest_healthz(&service, || bomb.is_finished());
        assert!(slowest < Duration::from_secs(2), "{slowest:?}");
        bomb.join().unwrap()
    });
    assert_eq!(answer.status, 200, "{}", answer.body);
    // Whatever the bomb left behind, the session answers or is replaced.
    crate::support::until("the session works again", || {
        let answer = service.bash("echo alive");
        answer.status == 200 && answer.body["stdout"] == "alive\n"
    });
    let other = service.post(
        "/bash",
        json!({"session_id": "other", "command": "echo ok"}),
    );
    assert_eq!(other.stdout(), "ok\n");
}

#[test]
fn a_file_does_not_outgrow_the_disk_limit() {
    let service = Service::start_with(&[("SANDBOX_DISK_LIMIT", "10m")]);
    let answer = service.bash("head -c 50000000 /dev/zero > big; stat -c %s big");
    let size: u64 = answer.stdout().trim().parse().unwrap();
    assert!(size <= 10 << 20, "{size}");
}

#[test]
fn the_answer_says_which_mechanism_enforces_which_limit() {
    let service = Service::start();
    let answer = service.bash("true");
    let limits = &answer.body["meta"]["limits"];
    assert_eq!(limits["memory_bytes"], 512 << 20, "{limits}");
    let backend = &service.get("/backends").body["backends"][0];
    for limit in ["memory", "cpus", "pids", "disk", "tmp"] {
        assert!(backend["enforcement"][limit].is_string(), "{backend}");
    }
    assert_eq!(backend["name"], "local");
}
