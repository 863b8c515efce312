//! Requests that are wrong, and what they are told.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::Service;

#[test]
fn bad_requests_are_named_and_nothing_runs() {
    let service = Service::start();
    let long = "x".repeat(2 << 20);
    for (route, body, part) in [
        (
            "/execute",
            json!({"code": "1", "sesion_id": "s"}),
            "sesion_id",
        ),
        (
            "/execute",
            json!({"code": "1", "session_id": "../x"}),
            "session_id",
        ),
        (
            "/execute",
            json!({"code": "1", "tenant_id": "a/b"}),
            "tenant_id",
        ),
        ("/execute", json!({"code": ""}), "code"),
        ("/execute", json!({"session_id": "s"}), "code"),
        ("/execute", json!({"code": 1}), ""),
        (
            "/execute",
            json!({"code": "1", "timeout_seconds": 0}),
            "timeout_seconds",
        ),
        (
            "/execute",
            json!({"code": "1", "timeout_seconds": -1}),
            "timeout_seconds",
        ),
        (
            "/execute",
            json!({"code": "1", "timeout_seconds": 1e300}),
            "timeout_seconds",
        ),
        ("/execute", json!({"code": "1", "env": {"A=B": "x"}}), "env"),
        (
            "/execute",
            json!({"code": "1", "env": {"A": "x\u{0}"}}),
            "env",
        ),
        ("/bash", json!({"command": ""}), "command"),
        ("/read", json!({"path": "x"}), "session_id"),
        (
            "/write",
            json!({"path": "x", "content": "!", "encoding": "base64", "session_id": "s"}),
            "base64",
        ),
    ] {
        let answer = service.post(route, body.clone());
        assert_eq!(answer.status, 400, "{route} {body}: {}", answer.body);
        assert_eq!(answer.header("content-type"), "application/problem+json");
        assert!(!answer.code().is_empty() && !answer.body["request_id"].is_null());
        assert!(
            answer.body["detail"].as_str().unwrap().contains(part),
            "{}",
            answer.body
        );
    }
    let huge = service.post("/execute", json!({"code": long}));
    assert_eq!(huge.status, 413, "{}", huge.body);
    assert_eq!(
        service.metric("sandbox_session_created_total{backend=\"local\"}"),
        0.0
    );
}

#[test]
fn what_is_not_json_or_not_a_route_is_a_problem_too() {
    let service = Service::start();
    let send = |method: &str, path: &str, kind: &str, body: &[u8]| {
        service
            .client()
            .send(method, path, &[("content-type", kind)], Some(body))
    };
    for (body, status) in [
        (&b"{"[..], 400),
        (b"", 400),
        (b"[]", 400),
        (b"{\"code\": \"\xff\"}", 400),
    ] {
        let answer = send("POST", "/execute", "application/json", body);
        assert_eq!(
            (answer.status, answer.code()),
            (status, "invalid_request"),
            "{}",
            answer.body
        );
    }
    assert_eq!(
        send("POST", "/execute", "text/plain", b"{\"code\":\"1\"}").status,
        415
    );
    let missing = service.get("/no/such/route");
    assert_eq!((missing.status, missing.code()), (404, "not_found"));
    let method = service.get("/execute");
    assert_eq!(method.status, 405);
    assert_eq!(method.header("content-type"), "application/problem+json");
}

#[test]
fn every_route_answers_under_the_prefix_too() {
    let service = Service::start();
    let answer = service.post(
        "/v1/sandbox/bash",
        json!({"session_id": "s", "command": "echo 1"}),
    );
    assert_eq!(answer.stdout(), "1\n");
    assert!(!answer.header("x-request-id").is_empty());
    for path in [
        "/healthz",
        "/metrics",
        "/backends",
        "/sessions",
        "/openapi.json",
        "/docs",
    ] {
        assert_eq!(service.get(path).status, 200, "{path}");
        assert_eq!(
            service.get(&format!("/v1/sandbox{path}")).status,
            200,
            "{path}"
        );
    }
}

#[test]
fn readiness_follows_the_self_test() {
    let service = Service::start();
    crate::support::until("the service is ready", || {
        let answer = service.get("/readyz");
        assert!(answer.status == 200 || answer.status == 503);
        answer.status == 200
    });
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let service = Service::start_with(&[("SANDBOX_BODY_LIMIT", "1m")]);
    let answer = service.post(
        "/write",
        json!({"session_id": "s", "path": "x", "content": "x".repeat(2 << 20)}),
    );
    assert_eq!((answer.status, answer.code()), (413, "body_too_large"));
}

#[test]
fn a_client_that_never_finishes_its_headers_is_cut_off() {
    let service = Service::start();
    let mut stream = TcpStream::connect(service.url.strip_prefix("http://").unwrap()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    write!(stream, "GET /healthz HTTP/1.1\r\nHost:").unwrap();
    let began = Instant::now();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(began.elapsed() < Duration::from_secs(40));
}
