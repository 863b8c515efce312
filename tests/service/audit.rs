//! What was done, by whom and when.

use serde_json::{Value, json};

use crate::support::{Answer, Client, SECRET, Service, token, until};

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    String::from_utf8(answer.bytes.clone())
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn export(admin: &Client, query: &str) -> Vec<Value> {
    lines(&admin.send("GET", &format!("/audit{query}"), &[], None))
}

fn service(settings: &[(&str, &str)]) -> (Service, Client, Client) {
    let mut all = vec![("SANDBOX_JWT_SECRET", SECRET)];
    all.extend(settings);
    let service = Service::start_with(&all);
    let acme = service.client().with_token(&token(&["--tenant", "acme"]));
    let admin = service
        .client()
        .with_token(&token(&["--tenant", "ops", "--admin"]));
    (service, acme, admin)
}

#[test]
fn everything_that_changes_something_is_in_the_trail() {
    let (_service, acme, admin) = service(&[]);
    let path = "f.txt";
    acme.post(
        "/execute",
        json!({"session_id": "s", "code": "print(1); raise SystemExit(2)"}),
    );
    acme.post(
        "/bash",
        json!({"session_id": "s", "command": "echo two", "execution_id": "mine"}),
    );
    acme.post(
        "/write",
        json!({"session_id": "s", "path": path, "content": "abc"}),
    );
    acme.post(
        "/edit",
        json!({"session_id": "s", "path": path, "old_string": "b", "new_string": "xy"}),
    );
    acme.post(
        "/move",
        json!({"session_id": "s", "source": path, "destination": "g"}),
    );
    acme.post("/delete", json!({"session_id": "s", "path": "nothing"}));
    assert_eq!(
        acme.send("DELETE", "/sessions/acme/s", &[], None).status,
        204
    );
    until("all of it is written", || export(&admin, "").len() == 8);
    let trail = export(&admin, "?tenant_id=acme&session_id=s");
    let mut told: Vec<_> = trail
        .iter()
        .map(|entry| {
            assert_eq!(
                (&entry["tenant_id"], &entry["session_id"]),
                (&json!("acme"), &json!("s"))
            );
            assert!(entry["duration_seconds"].as_f64().is_some());
            let text = |key: &str| entry[key].as_str().unwrap_or("-").to_owned();
            (
                text("action"),
                text("outcome"),
                text("path"),
                entry["bytes"].clone(),
            )
        })
        .collect();
    let entry = |action: &str, outcome: &str, path: &str, bytes: Value| {
        (
            action.to_owned(),
            outcome.to_owned(),
            path.to_owned(),
            bytes,
        )
    };
    let mut expected = vec![
        entry("session_created", "ok", "-", Value::Null),
        entry("execute", "exited", "-", json!(2)),
        entry("bash", "exited", "-", json!(4)),
        entry("write", "ok", path, json!(3)),
        entry("edit", "ok", path, json!(2)),
        entry("move", "ok", path, Value::Null),
        entry("delete", "not_found", "nothing", Value::Null),
        entry("session_deleted", "ok", "-", Value::Null),
    ];
    // The first run and the session begin together.
    told[..2].sort_by(|a, b| a.0.cmp(&b.0));
    expected[..2].sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(told, expected);
    let bash = trail
        .iter()
        .find(|entry| entry["action"] == "bash")
        .unwrap();
    assert_eq!(bash["execution_id"], "mine");
    assert_eq!(bash["code_sha256"], sha256("echo two"));
    assert_eq!(bash["code"], Value::Null);
    assert!(bash["request_id"].as_str().is_some());
    assert!(!bash["subject"].as_str().unwrap().is_empty());
}

/// By the machine's own tool.
fn sha256(text: &str) -> String {
    use std::{
        io::Write as _,
        process::{Command, Stdio},
    };
    let mut tool = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    tool.stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = tool.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

#[test]
fn runs_are_listed_page_by_page_newest_first() {
    let (_service, acme, admin) = service(&[("SANDBOX_AUDIT_CODE", "true")]);
    for n in 0..5 {
        let session = if n < 3 { "a" } else { "b" };
        acme.post(
            "/bash",
            json!({"session_id": session, "command": format!("echo {n}")}),
        );
    }
    let list = |client: &Client, query: &str| {
        let answer = client.send("GET", &format!("/executions{query}"), &[], None);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    };
    let codes = |page: &Value| -> Vec<String> {
        let entries = page["executions"].as_array().unwrap();
        entries
            .iter()
            .map(|entry| entry["code"].as_str().unwrap().to_owned())
            .collect()
    };
    until("all are written", || codes(&list(&acme, "")).len() == 5);
    let first = list(&acme, "?limit=3");
    assert_eq!(codes(&first), ["echo 4", "echo 3", "echo 2"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = list(&acme, &format!("?limit=3&cursor={cursor}"));
    assert_eq!(codes(&second), ["echo 1", "echo 0"]);
    assert_eq!(second["next_cursor"], Value::Null);
    assert_eq!(codes(&list(&acme, "?session_id=b")), ["echo 4", "echo 3"]);
    assert_eq!(codes(&list(&admin, "?tenant_id=acme&limit=1")), ["echo 4"]);
    assert_eq!(
        codes(&list(&acme, "?until=2001-01-01T00:00:00Z")),
        Vec::<String>::new()
    );
    for bad in [
        "limit=0",
        "limit=1001",
        "cursor=x",
        "from=yesterday",
        "session_id=../x",
        "more=1",
    ] {
        let answer = acme.send("GET", &format!("/executions?{bad}"), &[], None);
        assert_eq!(answer.status, 400, "{bad}");
    }
}

#[test]
fn a_tenant_sees_its_own_trail_only_and_exports_none() {
    let (service, acme, admin) = service(&[]);
    acme.post("/bash", json!({"command": "true"}));
    let other = service.client().with_token(&token(&["--tenant", "other"]));
    until("it is written", || export(&admin, "").len() == 1);
    let seen = other.send("GET", "/executions", &[], None);
    assert_eq!(seen.body["executions"], json!([]));
    let foreign = other.send("GET", "/executions?tenant_id=acme", &[], None);
    assert_eq!((foreign.status, foreign.code()), (403, "forbidden_tenant"));
    let export = other.send("GET", "/audit", &[], None);
    assert_eq!((export.status, export.code()), (403, "forbidden"));
}

#[test]
fn the_trail_is_whole_after_a_stop_and_a_start() {
    let (mut service, acme, _) = service(&[]);
    for n in 0..20 {
        acme.post(
            "/write",
            json!({"session_id": "s", "path": "f", "content": n.to_string()}),
        );
    }
    service.terminate();
    assert!(service.wait().success());
    service.restart();
    let admin = service
        .client()
        .with_token(&token(&["--tenant", "ops", "--admin"]));
    let writes = export(&admin, "")
        .into_iter()
        .filter(|entry| entry["action"] == "write");
    assert_eq!(writes.count(), 20);
}
