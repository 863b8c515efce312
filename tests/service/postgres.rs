//! The service on PostgreSQL, which stops and comes back under it.

use std::process::Command;

use serde_json::json;

use crate::{
    postgres_server::{PASSWORD, Server},
    support::{Service, until},
};

fn service_on(url: &str) -> Service {
    Service::start_with(&[("DATABASE_URL", url)])
}

#[test]
fn sessions_outlive_the_service_and_are_its_own() {
    let server = Server::start();
    let url = server.database();
    let mut one = service_on(&url);
    let two = service_on(&url);
    one.bash("echo one > f");
    assert_eq!(two.get("/sessions/default/s").status, 404);
    two.bash("echo two > f");
    one.kill();
    one.restart();
    assert_eq!(one.get("/sessions/default/s").body["state"], "stopped");
    assert_eq!(one.bash("cat f").stdout(), "one\n");
    assert_eq!(one.delete("/sessions/default/s").status, 204);
    one.restart();
    assert_eq!(one.get("/sessions/default/s").status, 404);
    assert_eq!(two.bash("cat f").stdout(), "two\n");
}

#[test]
fn a_restart_of_the_database_is_ridden_out() {
    let server = Server::start();
    let service = service_on(&server.database());
    service.bash("echo kept > f");
    until("the service is ready", || {
        service.get("/readyz").status == 200
    });
    server.stop();
    until("the service says that it is not ready", || {
        service.get("/readyz").status == 503
    });
    let said = service.get("/readyz").body.to_string();
    assert!(said.contains("the store does not answer"), "{said}");
    assert!(
        !said.contains(PASSWORD) && !said.contains("tester"),
        "{said}"
    );
    assert_eq!(service.get("/healthz").status, 200);
    // A session that is there needs no database.
    assert_eq!(service.bash("cat f").stdout(), "kept\n");
    // One that is new waits for it.
    let client = service.client();
    let body = json!({"session_id": "new", "command": "echo made"});
    let waiting = std::thread::spawn(move || client.post("/bash", body));
    server.resume();
    assert_eq!(waiting.join().unwrap().stdout(), "made\n");
    until("the service is ready", || {
        service.get("/readyz").status == 200
    });
}

#[test]
fn the_databases_password_is_shown_nowhere() {
    let server = Server::start();
    let state = tempfile::tempdir().unwrap();
    let url = server.url("no_such_database");
    for arguments in [&["serve"][..], &["config", "check"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_sandboxd"))
            .args(arguments)
            .env("SANDBOX_STATE_DIR", state.path())
            .env("SANDBOX_LISTEN", "127.0.0.1:0")
            .env("SANDBOX_LOG", "trace")
            .env("DATABASE_URL", &url)
            .output()
            .unwrap();
        let mut said = String::from_utf8(output.stdout).unwrap();
        said += &String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("********@127.0.0.1"), "{said}");
        assert!(said.contains("no_such_database"), "{said}");
        assert!(!said.contains(PASSWORD), "{said}");
    }
}
