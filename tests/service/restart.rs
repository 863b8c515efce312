//! The service stops, is killed, and comes back.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Service, is_alive, processes_with, until};

#[test]
fn after_kill_9_nothing_runs_and_nothing_is_lost() {
    let mut service = Service::start();
    service.bash("echo kept > f");
    let mark = format!("6{}", std::process::id() + 1_000_000);
    let client = service.client();
    let body = json!({"session_id": "s", "command": format!("setsid sleep {mark} & sleep {mark}")});
    let run = std::thread::spawn(move || std::panic::catch_unwind(|| client.post("/bash", body)));
    until("the run has started", || processes_with(&mark).len() >= 3);
    let family = service.family();
    assert!(family.len() >= 5, "{family:?}");
    service.kill();
    let _ = run.join();
    until("no process is left", || processes_with(&mark).is_empty());
    until("no sandbox is left", || !family.iter().any(is_alive));
    service.restart();
    assert_eq!(service.get("/sessions/default/s").body["state"], "stopped");
    let answer = service.bash("cat f");
    assert_eq!(
        (answer.stdout(), &answer.body["meta"]["session_created"]),
        ("kept\n", &json!(true))
    );
    assert_eq!(service.delete("/sessions/default/s").status, 204);
    service.restart();
    assert_eq!(service.get("/sessions/default/s").status, 404);
}

#[test]
fn sigterm_lets_a_run_finish_and_leaves_no_process() {
    let mut service = Service::start();
    service.bash("echo kept > f");
    let client = service.client();
    let body = json!({"session_id": "s", "command": "touch started; sleep 1; echo finished"});
    let run = std::thread::spawn(move || client.post("/bash", body));
    until("the run has started", || {
        service.bash("ls started").body["exit_code"] == 0
    });
    let family = service.family();
    service.terminate();
    assert_eq!(run.join().unwrap().stdout(), "finished\n");
    assert!(service.wait().success());
    assert!(
        !family.is_empty() && !family.iter().any(is_alive),
        "{family:?}"
    );
    service.restart();
    assert_eq!(service.bash("cat f").stdout(), "kept\n");
}

#[test]
fn sigterm_ends_what_does_not_finish_in_time() {
    let mut service = Service::start_with(&[("SANDBOX_SHUTDOWN_GRACE", "1")]);
    let mark = format!("5{}", std::process::id() + 1_000_000);
    let client = service.client();
    let body = json!({"session_id": "s", "command": format!("setsid sleep {mark} & sleep {mark}")});
    let run = std::thread::spawn(move || std::panic::catch_unwind(|| client.post("/bash", body)));
    until("the run has started", || processes_with(&mark).len() >= 3);
    let began = Instant::now();
    service.terminate();
    assert!(service.wait().success());
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    let _ = run.join();
}

#[test]
fn one_state_directory_has_one_service() {
    let service = Service::start();
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_sandboxd"))
        .arg("serve")
        .env("SANDBOX_STATE_DIR", service.state())
        .env("SANDBOX_LISTEN", "127.0.0.1:0")
        .output()
        .unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("in use"), "{said}");
}
