//! envd's port.

use std::time::Duration;

use e2b_wire::{FileOperation, FileSignature};
use http_body_util::BodyExt as _;
use sandbox_store::AuditAction;
use serde_json::{Value, json};

use crate::support::{frame, start};

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_and_files_need_the_token_of_their_sandbox() {
    let api = start().await;
    let (one, other) = (api.create(json!({})).await, api.create(json!({})).await);
    for (method, path) in [
        ("POST", "/process.Process/List"),
        ("POST", "/process.Process/Start"),
        ("POST", "/filesystem.Filesystem/Stat"),
        ("GET", "/files?path=x"),
        ("POST", "/files?path=x"),
        ("GET", "/metrics"),
        ("GET", "/envs"),
    ] {
        for token in [
            None,
            Some(""),
            Some(other.envd.as_str()),
            Some(one.traffic.as_str()),
        ] {
            let mut headers = vec![
                ("e2b-sandbox-id", one.id.as_str()),
                ("e2b-sandbox-port", "49983"),
            ];
            headers.extend(token.map(|token| ("x-access-token", token)));
            let answer = api.send(method, path, &headers, "{}").await;
            assert_eq!(answer.error().0, 401, "{method} {path} {token:?}");
        }
    }
    let headers = [
        ("e2b-sandbox-id", one.id.as_str()),
        ("e2b-sandbox-port", "49983"),
    ];
    assert_eq!(api.send("GET", "/health", &headers, "").await.status, 204);
    assert_eq!(api.to(&one, "49983", "GET", "/envs", "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_for_callers_is_not_there() {
    let api = start().await;
    let sandbox = api.create(json!({})).await;
    for (method, path) in [
        ("POST", "/init"),
        ("POST", "/freeze"),
        ("POST", "/ports/22"),
        ("POST", "/sandbox.v1.Code/Run"),
        ("POST", "/sandbox.v1.life.Life/Freeze"),
        ("POST", "/process.Process/../sandbox.v1.Code/Run"),
        ("GET", "/"),
    ] {
        let answer = api.to(&sandbox, "49983", method, path, "{}").await;
        assert_eq!(answer.error().0, 404, "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_with_the_sandboxes_environment_and_is_recorded() {
    let api = start().await;
    let sandbox = api.create(json!({"envVars": {"GREETING": "hi"}})).await;
    let events = api.shell(&sandbox, "echo $GREETING; exit 3").await;
    assert!(events[0]["event"]["start"]["pid"].is_number(), "{events:?}");
    assert_eq!(events[1]["event"]["data"]["stdout"], "aGkK");
    assert_eq!(events[2]["event"]["end"]["exitCode"], 3);
    assert_eq!(events.last().unwrap(), &json!({}));
    let audited = api.audited().await;
    let started: Vec<_> = audited
        .iter()
        .filter(|record| record.action == AuditAction::ProcessStarted)
        .collect();
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].subject, format!("sandbox:{}", sandbox.id));
    assert_eq!(started[0].outcome, "ok");
    assert!(started[0].code_sha256.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_address_reads_and_writes_one_file() {
    let api = start().await;
    let sandbox = api.create(json!({})).await;
    let headers = [
        ("e2b-sandbox-id", sandbox.id.as_str()),
        ("e2b-sandbox-port", "49983"),
        ("content-type", "application/octet-stream"),
    ];
    let path = "/workspace/ä b.txt";
    let address = |path: &str, operation, expires: Option<i64>| {
        let signature = FileSignature {
            path,
            operation,
            username: "",
            expires,
        };
        let until = expires.map_or(String::new(), |at| format!("&signature_expiration={at}"));
        let signature = encoded(&signature.sign(&sandbox.envd));
        format!("/files?path={}&signature={signature}{until}", encoded(path))
    };
    let now = 1_700_000_000;
    let write = address(path, FileOperation::Write, Some(now + 60));
    let written = api.send("POST", &write, &headers, "signed").await;
    assert_eq!(written.json()[0]["path"], path);
    let read = address(path, FileOperation::Read, None);
    assert_eq!(api.send("GET", &read, &headers, "").await.text(), "signed");
    for (method, address) in [
        ("GET", write),
        ("POST", read),
        ("GET", address(path, FileOperation::Read, Some(now - 1))),
        (
            "GET",
            address("/workspace/other", FileOperation::Read, None).replace("other", "else"),
        ),
    ] {
        let refused = api.send(method, &address, &headers, "x").await;
        assert_eq!(refused.error().0, 401, "{method} {address}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_breaks_off_what_runs() {
    let api = start().await;
    let sandbox = api.create(json!({})).await;
    let start = json!({"process": {"cmd": "/bin/sleep", "args": ["60"]}, "stdin": false});
    let headers = [
        ("e2b-sandbox-id", sandbox.id.as_str()),
        ("e2b-sandbox-port", "49983"),
        ("x-access-token", &sandbox.envd),
        ("content-type", "application/connect+json"),
    ];
    let body = frame(&start.to_string());
    let answer = api
        .begin("POST", "/process.Process/Start", &headers, body)
        .await;
    let mut body = answer.into_body();
    body.frame().await.unwrap().unwrap();
    let path = format!("/sandboxes/{}", sandbox.id);
    let (killed, rest) = tokio::join!(
        api.call("DELETE", &path, Value::Null),
        tokio::time::timeout(Duration::from_secs(10), body.collect()),
    );
    assert_eq!(killed.status, 204);
    assert!(rest.unwrap().is_err(), "the end is no end of the program");
    let health = api.to(&sandbox, "49983", "GET", "/health", "").await;
    assert_eq!(
        health.json(),
        json!({"sandboxId": sandbox.id, "message": "The sandbox was not found", "code": 502})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_frames_end_with_an_error_of_the_protocol() {
    let api = start().await;
    let sandbox = api.create(json!({})).await;
    let headers = [
        ("e2b-sandbox-id", sandbox.id.as_str()),
        ("e2b-sandbox-port", "49983"),
        ("x-access-token", &sandbox.envd),
        ("content-type", "application/connect+json"),
        ("connect-protocol-version", "1"),
    ];
    for bad in [
        b"".to_vec(),
        vec![0, 0],
        vec![0, 0, 0, 0, 9, b'{'],
        frame("{"),
        frame("[]"),
    ] {
        let answer = api
            .send("POST", "/process.Process/Start", &headers, bad.clone())
            .await;
        assert_eq!(answer.status, 200, "{bad:?}");
        let last = crate::support::frames(&answer.bytes).pop().unwrap();
        assert!(last["error"]["code"].is_string(), "{bad:?}: {last}");
    }
    assert_eq!(
        api.shell(&sandbox, "true").await.len(),
        3,
        "the sandbox is well"
    );
}
