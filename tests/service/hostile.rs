//! Requests that no honest client sends: each gets its documented answer, changes
//! nothing, and the next request works.

mod bodies;
mod paths;
mod sockets;

use serde_json::{Value, json};

use crate::support::{Answer, Service};

/// Sends these bytes as the body of a POST, JSON unless a header says otherwise.
fn post(service: &Service, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut all = headers.to_vec();
    if !all.iter().any(|(name, _)| *name == "content-type") {
        all.push(("content-type", "application/json"));
    }
    service.client().send("POST", path, &all, Some(body))
}

/// What every refusal is.
fn assert_problem(answer: &Answer, what: &str) {
    assert_eq!(
        answer.header("content-type"),
        "application/problem+json",
        "{what}: {answer:?}"
    );
    assert_eq!(answer.body["status"], answer.status, "{what}");
    for member in ["type", "title", "detail", "code", "request_id"] {
        assert!(answer.body[member].is_string(), "{what}: {}", answer.body);
    }
}

fn assert_nothing_changed(service: &Service) {
    assert_eq!(
        service.metric("sandbox_session_created_total{backend=\"local\"}"),
        0.0
    );
    assert_eq!(service.get("/sessions").body["sessions"], json!([]));
}

fn assert_works(service: &Service) {
    let answer = service.post(
        "/bash",
        json!({"session_id": "after", "command": "echo works"}),
    );
    assert_eq!(answer.stdout(), "works\n");
}

/// A body with one member replaced by text that need not be JSON.
fn with_raw(body: &serde_json::Map<String, Value>, name: &str, raw: &[u8]) -> Vec<u8> {
    let mut text = b"{".to_vec();
    for (key, value) in body.iter().filter(|(key, _)| *key != name) {
        text.extend(format!("{}:{value},", json!(key)).bytes());
    }
    text.extend(format!("{}:", json!(name)).bytes());
    text.extend(raw);
    text.push(b'}');
    text
}
