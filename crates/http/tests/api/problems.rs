//! Every answer that is not a success has one shape.

use std::time::Duration;

use axum::body::Body;
use futures::stream;
use sandbox_http::HttpSettings;
use serde_json::json;

use crate::support::{Setup, settings, start, start_with};

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn a_problem_has_every_member_and_the_id_of_its_answer() {
    let service = start().await;
    let headers = [JSON, ("x-request-id", "client.1")];
    let answer = service.send("POST", "/execute", &headers, "{}").await;
    assert_eq!(answer.header("x-request-id"), "client.1");
    assert_eq!(
        answer.json(),
        json!({
            "type": "urn:sandboxd:problem:invalid_request",
            "title": "invalid request",
            "status": 400,
            "detail": "the body is not as this route takes it: missing field `code` at line 1 column 2",
            "code": "invalid_request",
            "request_id": "client.1",
        })
    );
}

#[tokio::test]
async fn every_answer_has_a_request_id() {
    let service = start().await;
    let mut seen = std::collections::BTreeSet::new();
    for (method, path) in [("GET", "/healthz"), ("GET", "/none"), ("PUT", "/execute")] {
        let answer = service
            .send(method, path, &[("x-request-id", "a b")], "")
            .await;
        let id = answer.header("x-request-id").to_owned();
        assert_eq!(id.len(), 36, "{id}");
        assert!(seen.insert(id));
    }
}

#[tokio::test]
async fn bodies_that_are_not_json_are_told_where_they_are_wrong() {
    let service = start().await;
    for body in [
        "",
        "{",
        "[]",
        "null",
        "{\"code\": NaN}",
        "{\"code\":\"a\"} x",
        "{\"code\":1e999}",
    ] {
        let answer = service.send("POST", "/execute", &[JSON], body).await;
        assert_eq!(answer.problem(), (400, "invalid_request".into()), "{body}");
    }
    let answer = service
        .send("POST", "/execute", &[JSON], "{\n \"code\": }")
        .await;
    assert!(
        answer.detail().ends_with("at line 2 column 10"),
        "{}",
        answer.detail()
    );
    let not_text = service
        .send("POST", "/execute", &[JSON], &b"{\"code\":\"\xff\"}"[..])
        .await;
    assert_eq!(not_text.status, 400);
}

#[tokio::test]
async fn unknown_fields_are_refused_by_name_on_every_route() {
    let service = start().await;
    for route in [
        "/execute",
        "/bash",
        "/read",
        "/read_binary",
        "/write",
        "/edit",
        "/ls",
        "/delete",
        "/move",
        "/grep",
        "/glob",
    ] {
        let answer = service.post(route, json!({"sesion_id": "s"})).await;
        assert_eq!(answer.problem(), (400, "invalid_request".into()), "{route}");
        assert!(
            answer.detail().contains("unknown field `sesion_id`"),
            "{route}: {}",
            answer.detail()
        );
    }
    let query = service.get("/sessions?tenent_id=a").await;
    assert_eq!(query.problem(), (400, "invalid_request".into()));
    assert!(
        query.detail().contains("unknown field `tenent_id`"),
        "{}",
        query.detail()
    );
}

#[tokio::test]
async fn only_json_is_taken() {
    let service = start().await;
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "",
    ] {
        let headers = [("content-type", kind)];
        let answer = service
            .send("POST", "/execute", &headers, "{\"code\":\"1\"}")
            .await;
        assert_eq!(
            answer.problem(),
            (415, "unsupported_media_type".into()),
            "{kind}"
        );
    }
    let headers = [("content-type", "Application/JSON; charset=utf-8")];
    let answer = service
        .send("POST", "/execute", &headers, "{\"code\":\"1\"}")
        .await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_route_or_method_that_is_not_there_is_a_problem() {
    let service = start().await;
    for path in ["/none", "/v1/sandbox/none", "/v1/sandbox", "/"] {
        assert_eq!(
            service.get(path).await.problem(),
            (404, "not_found".into()),
            "{path}"
        );
    }
    for (path, allow) in [("/execute", "POST"), ("/v1/sandbox/healthz", "GET,HEAD")] {
        let answer = service.send("PUT", path, &[], "").await;
        assert_eq!(answer.problem(), (405, "method_not_allowed".into()));
        assert_eq!(answer.header("allow"), allow);
    }
}

#[tokio::test]
async fn a_body_has_a_ceiling_whether_its_length_is_told_or_not() {
    let service = start_with(Setup {
        settings: HttpSettings {
            max_body_bytes: 100,
            ..settings()
        },
        ..Setup::default()
    })
    .await;
    let told = service
        .send("POST", "/write", &[JSON, ("content-length", "101")], "{}")
        .await;
    assert_eq!(told.problem(), (413, "body_too_large".into()));
    let parts = (0..11).map(|_| Ok::<_, std::io::Error>("0123456789"));
    let untold = Body::from_stream(stream::iter(parts));
    let untold = service.send("POST", "/write", &[JSON], untold).await;
    assert_eq!(untold.problem(), (413, "body_too_large".into()));
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let service = start_with(Setup {
        settings: HttpSettings {
            body_timeout: Duration::from_millis(50),
            ..settings()
        },
        ..Setup::default()
    })
    .await;
    let never = Body::from_stream(stream::pending::<Result<&str, std::io::Error>>());
    let answer = service.send("POST", "/write", &[JSON], never).await;
    assert_eq!(answer.problem(), (408, "request_timeout".into()));
}

#[tokio::test]
async fn every_route_is_at_the_root_and_under_the_prefix() {
    let service = start_with(Setup {
        settings: HttpSettings {
            prefix: "/box".parse().unwrap(),
            ..settings()
        },
        ..Setup::default()
    })
    .await;
    for path in ["/healthz", "/box/healthz"] {
        assert_eq!(service.get(path).await.status, 200, "{path}");
    }
    assert_eq!(service.get("/v1/sandbox/healthz").await.status, 404);
    let metrics = service.get("/box/metrics").await;
    let line = "sandbox_http_requests_total{method=\"GET\",route=\"/healthz\",status=\"200\"} 2";
    assert!(metrics.text().contains(line), "{}", metrics.text());
}

#[tokio::test]
async fn a_panic_is_a_500_that_says_nothing_of_it() {
    let service = start_with(Setup {
        store: || panic!("secret"),
        ..Setup::default()
    })
    .await;
    let answer = service.get("/readyz").await;
    assert_eq!(answer.problem(), (500, "internal".into()));
    assert_eq!(answer.detail(), "internal error");
    assert_eq!(service.get("/healthz").await.status, 200);
}
