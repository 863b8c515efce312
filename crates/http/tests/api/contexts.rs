//! /execute in a context, and the contexts of a session.

use sandbox_core::{ByteSize, ContextLimits};
use sandbox_http::HttpSettings;
use serde_json::{Value, json};

use crate::support::{Service, Setup, settings, start, start_with};

async fn delete(service: &Service, path: &str) -> crate::support::Answer {
    service.send("DELETE", path, &[], "").await
}

fn code(answer: &Value) -> &str {
    answer["code"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn code_runs_in_the_context_that_it_names() {
    let limits = ContextLimits {
        max_contexts: 3,
        idle: None,
        memory: Some(ByteSize::mib(64)),
    };
    let settings = HttpSettings {
        contexts: limits,
        ..settings()
    };
    let service = start_with(Setup {
        settings,
        ..Setup::default()
    })
    .await;
    let body = json!({"code": "1 + 1", "session_id": "s", "context": "main", "timeout_seconds": 2});
    let answer = service.post("/execute", body).await;
    assert_eq!(answer.status, 200, "{:?}", answer.bytes);
    let answer = answer.json();
    assert_eq!(
        answer["context"],
        json!({"name": "main", "created": true, "lost": false, "main_result": 1})
    );
    assert!(answer.get("error").is_none());
    assert_eq!(answer["results"][0], json!({"text/plain": "shown"}));
    let said = answer["results"][1]["text/plain"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(said).unwrap(),
        json!({
            "context": "main", "language": "python", "driver": "python",
            "argv": ["python3", "-u", "{file}"], "code": "1 + 1", "timeout_ms": 2000,
            "limits": [3, 0, 64 << 20],
        })
    );
    let plain = json!({"code": "1", "session_id": "s"});
    let plain = service.post("/execute", plain).await.json();
    assert!(plain.get("context").is_none() && plain.get("error").is_none());
}

#[tokio::test]
async fn an_exception_and_a_lost_context_are_told() {
    let service = start().await;
    let run = |code: &str| json!({"code": code, "session_id": "s", "context": "main"});
    let answer = service.post("/execute", run("raise")).await.json();
    assert_eq!(
        answer["error"],
        json!({
            "name": "ValueError", "value": "bad",
            "traceback": "Traceback: ValueError: bad",
        })
    );
    assert_eq!(answer["exit_code"], 1);
    assert!(answer["context"].get("main_result").is_none());
    let answer = service.post("/execute", run("die")).await.json();
    assert_eq!(
        (&answer["context"]["lost"], &answer["context"]["reason"]),
        (&json!(true), &json!("died"))
    );
    // As events, too.
    let mut body = run("raise");
    body["stream"] = json!(true);
    let answer = service.post("/execute", body).await;
    let text = String::from_utf8(answer.bytes.to_vec()).unwrap();
    let events: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    assert_eq!(events, ["start", "display", "exception", "result"]);
}

#[tokio::test]
async fn what_a_context_cannot_have_is_refused() {
    let service = start().await;
    for (body, status, code_wanted) in [
        (
            json!({"code": "1", "context": "main"}),
            400,
            "invalid_request",
        ),
        (
            json!({"code": "1", "context": "", "session_id": "s"}),
            400,
            "invalid_request",
        ),
        (
            json!({"code": "1", "context": "a/b", "session_id": "s"}),
            400,
            "invalid_request",
        ),
        (
            json!({"code": "1", "context": "x".repeat(65), "session_id": "s"}),
            400,
            "invalid_request",
        ),
        (
            json!({"code": "1", "context": "m", "session_id": "s", "stdin": "x"}),
            400,
            "invalid_request",
        ),
        (
            json!({"code": "1", "context": "m", "session_id": "s", "args": ["x"]}),
            400,
            "invalid_request",
        ),
        (
            json!({"code": "1", "context": "m", "session_id": "s", "env": {"A": "b"}}),
            400,
            "invalid_request",
        ),
        (
            json!({"code": "1", "context": "m", "session_id": "s", "language": "go"}),
            422,
            "unsupported",
        ),
        (
            json!({"code": "1", "context": "busy", "session_id": "s"}),
            409,
            "context_busy",
        ),
    ] {
        let answer = service.post("/execute", body.clone()).await;
        assert_eq!(answer.status, status, "{body}");
        assert_eq!(code(&answer.json()), code_wanted, "{body}");
    }
}

#[tokio::test]
async fn the_contexts_of_a_session_are_listed_restarted_and_deleted() {
    let service = start().await;
    let at = "/sessions/default/s/contexts";
    assert_eq!(service.get(at).await.status, 404);
    let body = json!({"code": "1", "session_id": "s"});
    assert_eq!(service.post("/execute", body).await.status, 200);
    let context = |runs: u64| {
        json!({
            "context": "main", "language": "python", "busy": false, "runs": runs,
            "age_seconds": 2.5, "idle_seconds": 1.5, "memory_bytes": 1 << 20,
        })
    };
    let answer = service.get(at).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json(), json!({"contexts": [context(3)]}));
    let answer = service.post(&format!("{at}/main/restart"), json!({})).await;
    assert_eq!(
        (answer.status, answer.json()),
        (200.try_into().unwrap(), context(0))
    );
    assert_eq!(delete(&service, &format!("{at}/main")).await.status, 204);
    for name in ["other", "main2"] {
        let answer = delete(&service, &format!("{at}/{name}")).await;
        assert_eq!(
            (answer.status.as_u16(), code(&answer.json())),
            (404, "not_found")
        );
    }
}
