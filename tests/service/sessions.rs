//! Sessions: one sandbox for each key, never shared, never two.

use serde_json::json;

use crate::support::{Service, processes_with, until};

#[test]
fn two_hundred_first_calls_make_one_sandbox() {
    let service = Service::start_with(&[
        ("SANDBOX_SESSION_QUEUE", "300"),
        ("SANDBOX_TENANT_QUEUE", "300"),
    ]);
    std::thread::scope(|scope| {
        for _ in 0..200 {
            scope.spawn(|| {
                let answer = service.bash("echo x >> log; hostname");
                assert_eq!(answer.status, 200, "{}", answer.body);
            });
        }
    });
    assert_eq!(service.bash("wc -l < log").stdout().trim(), "200");
    assert_eq!(
        service.metric("sandbox_session_created_total{backend=\"local\"}"),
        1.0
    );
    assert_eq!(
        service.get("/sessions").body["sessions"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn tenants_and_pairs_that_would_collide_are_apart() {
    let service = Service::start();
    let pairs = [
        ("a", "s"),
        ("b", "s"),
        ("a-b", "c"),
        ("a", "b-c"),
        ("a.b", "c"),
        ("a", "b.c"),
    ];
    for (tenant, session) in pairs {
        let who = format!("{tenant}/{session}");
        let answer = service.post("/bash", json!({"tenant_id": tenant, "session_id": session, "command": format!("cat me; echo {who} > me")}));
        assert_eq!(answer.stdout(), "", "{who} saw another");
    }
    for (tenant, session) in pairs {
        let answer = service.post(
            "/bash",
            json!({"tenant_id": tenant, "session_id": session, "command": "cat me"}),
        );
        assert_eq!(answer.stdout(), format!("{tenant}/{session}\n"));
    }
}

#[test]
fn a_delete_ends_the_run_and_removes_everything() {
    let service = Service::start();
    let mark = format!("9{}", std::process::id() + 1_000_000);
    let ended = std::thread::scope(|scope| {
        let run = scope
            .spawn(|| service.bash(&format!("echo 1 > f; setsid sleep {mark} & sleep {mark}")));
        until("the run has started", || processes_with(&mark).len() >= 3);
        assert_eq!(service.delete("/sessions/default/s").status, 204);
        run.join().unwrap()
    });
    assert_eq!(ended.code(), "session_deleted", "{}", ended.body);
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    assert_eq!(service.delete("/sessions/default/s").status, 404);
    assert_eq!(service.get("/sessions/default/s").status, 404);
    let fresh = service.bash("ls -A");
    assert_eq!(
        (fresh.stdout(), &fresh.body["meta"]["session_created"]),
        ("", &json!(true))
    );
}

#[test]
fn the_ceiling_is_a_429_that_says_when_to_come_back() {
    let service = Service::start_with(&[
        ("SANDBOX_MAX_SESSIONS", "3"),
        ("SANDBOX_TENANT_MAX_SESSIONS", "2"),
    ]);
    let run = |tenant: &str, session: &str| {
        service.post(
            "/bash",
            json!({"tenant_id": tenant, "session_id": session, "command": "true"}),
        )
    };
    assert_eq!(run("a", "1").status, 200);
    assert_eq!(run("a", "2").status, 200);
    let tenant = run("a", "3");
    assert_eq!(
        (tenant.status, tenant.code()),
        (429, "session_limit_reached")
    );
    assert!(tenant.header("retry-after").parse::<u64>().unwrap() > 0);
    assert_eq!(run("b", "1").status, 200);
    assert_eq!(run("b", "2").status, 429);
    assert_eq!(service.delete("/sessions/a/1").status, 204);
    assert_eq!(run("b", "2").status, 200);
    assert_eq!(run("a", "2").status, 200);
}

#[test]
fn an_idle_session_is_reaped_with_its_workspace() {
    let service = Service::start_with(&[("SANDBOX_IDLE_TIMEOUT", "1")]);
    service.bash("echo 1 > f");
    until("the session is reaped", || {
        service.get("/sessions/default/s").status == 404
    });
    until("its workspace is removed", || {
        std::fs::read_dir(service.state().join("workspaces"))
            .unwrap()
            .count()
            == 0
    });
    assert_eq!(service.bash("ls").stdout(), "");
}

#[test]
fn a_sandbox_that_died_is_replaced_with_its_workspace() {
    let service = Service::start();
    service.bash("echo kept > f");
    // The self-test's own sandboxes are not meant.
    until("the service is ready", || {
        service.get("/readyz").status == 200
    });
    for pid in service.family() {
        let _ = std::process::Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status();
    }
    until("the session works again", || {
        let answer = service.bash("cat f");
        answer.status == 200
            && answer.body["stdout"] == "kept\n"
            && answer.body["meta"]["session_created"] == true
    });
}

#[test]
fn a_session_can_be_looked_at() {
    let service = Service::start();
    service.bash("true");
    let session = service.get("/sessions/default/s").body;
    assert_eq!(
        (
            &session["tenant_id"],
            &session["session_id"],
            &session["backend"],
            &session["state"]
        ),
        (
            &json!("default"),
            &json!("s"),
            &json!("local"),
            &json!("running")
        )
    );
    assert_eq!(session["limits"]["pids"], 256);
}
