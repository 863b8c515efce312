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
    let headers = sandbox.of_a_stream();
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

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_client_has_gone_is_recorded_too() {
    let api = start().await;
    let sandbox = api.create(json!({})).await;
    let start = json!({"process": {"cmd": "/bin/true"}, "stdin": false});
    let headers = sandbox.of_a_stream();
    for patience in [0, 1, 5, 20] {
        let body = frame(&start.to_string());
        let call = api.begin("POST", "/process.Process/Start", &headers, body);
        let _ = tokio::time::timeout(Duration::from_millis(patience), call).await;
    }
    let recorded = async {
        while api
            .audited()
            .await
            .iter()
            .filter(|it| it.action == AuditAction::ProcessStarted)
            .count()
            < 4
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), recorded)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_files_are_recorded() {
    let api = start().await;
    let sandbox = api.create(json!({})).await;
    let headers = [
        ("e2b-sandbox-id", sandbox.id.as_str()),
        ("e2b-sandbox-port", "49983"),
        ("x-access-token", &sandbox.envd),
        ("content-type", "application/octet-stream"),
    ];
    let written = api
        .send(
            "POST",
            "/files?path=%2Fworkspace%2Fa%20b",
            &headers,
            "12345",
        )
        .await;
    assert_eq!(written.status, 200, "{}", written.text());
    for (call, body) in [
        (
            "Move",
            json!({"source": "/workspace/a b", "destination": "/workspace/c"}),
        ),
        ("Remove", json!({"path": "/workspace/c"})),
        ("ListDir", json!({"path": "/workspace"})),
    ] {
        let path = format!("/filesystem.Filesystem/{call}");
        let answer = api
            .to(&sandbox, "49983", "POST", &path, body.to_string())
            .await;
        assert_eq!(answer.status, 200, "{call}: {}", answer.text());
    }
    let all = api.audited().await;
    let changes: Vec<_> = all
        .iter()
        .filter(|record| record.subject.starts_with("sandbox:"))
        .map(|record| {
            (
                record.action,
                record.path.as_deref(),
                record.bytes,
                record.outcome.as_str(),
            )
        })
        .collect();
    assert_eq!(
        changes,
        [
            (AuditAction::Write, Some("/workspace/a b"), Some(5), "ok"),
            (AuditAction::Move, Some("/workspace/a b"), None, "ok"),
            (AuditAction::Delete, Some("/workspace/c"), None, "ok"),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tokens_of_a_sandbox_that_had_the_name_before_are_none() {
    let api = start().await;
    let key = api.keys[0].clone();
    let make = async || {
        let headers = [("x-api-key", key.as_str()), ("idempotency-key", "k")];
        let answer = api
            .send(
                "POST",
                "/v2/sandboxes",
                &headers,
                r#"{"templateID":"base"}"#,
            )
            .await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let made = answer.json();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("sandboxID"), text("envdAccessToken"))
    };
    let (id, token) = make().await;
    assert_eq!(make().await, (id.clone(), token.clone()));
    let killed = api
        .call("DELETE", &format!("/sandboxes/{id}"), Value::Null)
        .await;
    assert_eq!(killed.status, 204);
    let (again, other) = make().await;
    assert_eq!(again, id);
    for (token, status) in [(token, 401), (other, 200)] {
        let headers = [
            ("e2b-sandbox-id", id.as_str()),
            ("e2b-sandbox-port", "49983"),
            ("x-access-token", &token),
        ];
        assert_eq!(api.send("GET", "/envs", &headers, "").await.status, status);
    }
}
