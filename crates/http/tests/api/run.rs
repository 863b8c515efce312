//! /execute and /bash: what reaches the guest, and what comes back.

use std::{sync::atomic::Ordering, time::Duration};

use sandbox_backend::Problem;
use sandbox_http::HttpSettings;
use serde_json::{Value, json};

use crate::support::{FakeBackend, Setup, settings, start, start_with};

fn said(answer: &Value) -> Value {
    serde_json::from_str(answer["stdout"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn code_runs_with_all_that_it_was_given() {
    let service = start().await;
    let answer = service
        .post(
            "/execute",
            json!({
                "code": "print(1)", "language": "PY", "session_id": "s", "timeout_seconds": 1.5,
                "env": {"A": "b"}, "stdin": "in", "args": ["-x", "y z"],
                "files": [
                    {"path": "a", "content": "text"},
                    {"path": "b", "content": "/wA=", "encoding": "base64", "mode": "0755"},
                ],
            }),
        )
        .await;
    assert_eq!(answer.status, 200, "{:?}", answer.bytes);
    assert_eq!(
        said(&answer.json()),
        json!({
            "argv": ["python3", "-u", "{file}", "-x", "y z"], "file": "main.py", "source": "print(1)",
            "env": {"A": "b"}, "cwd": "", "stdin": "in", "timeout_ms": 1500,
            "output_limit_bytes": 1 << 20,
        })
    );
    let written = service.backend.guest.written.lock().unwrap().clone();
    assert_eq!(written["a"], (b"text".to_vec(), 0o644));
    assert_eq!(written["b"], (vec![255, 0], 0o755));
}

#[tokio::test]
async fn the_answer_says_how_and_where_it_ran() {
    let service = start().await;
    let body = json!({"code": "1", "session_id": "s"});
    let mut answer = service.post("/execute", body.clone()).await.json();
    assert!(!answer["execution_id"].as_str().unwrap().is_empty());
    let bytes = answer["stdout"].as_str().unwrap().len();
    for hidden in ["execution_id", "stdout"] {
        answer[hidden] = json!("-");
    }
    assert_eq!(
        answer,
        json!({
            "status": "finished", "artifacts": [], "results": [],
            "stdout": "-", "stderr": "", "exit_code": 0, "duration": 1.5, "truncated": false,
            "timed_out": false, "execution_id": "-", "session_id": "s",
            "meta": {
                "backend": "fake", "runtime": "python3", "language": "python",
                "session_created": true,
                "limits": {
                    "memory_bytes": 512 << 20, "cpus": 1.0, "pids": 256,
                    "disk_bytes": 1 << 30, "tmp_bytes": 64 << 20,
                },
                "enforcement": {"memory": "good manners"}, "network": "disabled",
                "termination": "exited", "phase": "run", "oom_killed": false,
                "artifacts_omitted": 0, "warm": false,
                "stdout_bytes": bytes, "stderr_bytes": 0,
                "usage": {"cpu_seconds": 0.25, "peak_memory_bytes": 1 << 20},
            },
        })
    );
    let again = service.post("/execute", body).await.json();
    assert_eq!(again["meta"]["session_created"], false);
}

#[tokio::test]
async fn a_signal_is_told_by_number() {
    let service = start().await;
    let answer = service
        .post("/execute", json!({"code": "crash"}))
        .await
        .json();
    assert_eq!(answer["exit_code"], 137);
    assert_eq!(answer["meta"]["signal"], 9);
    assert_eq!(answer["meta"]["termination"], "signaled");
    assert!(answer.get("session_id").is_none());
}

#[tokio::test]
async fn a_command_runs_in_the_shell_of_the_table() {
    let service = start().await;
    let body = json!({"command": "ls {file}", "session_id": "s", "cwd": "d", "stdin": "in"});
    let answer = service.post("/bash", body).await.json();
    let said = said(&answer);
    assert_eq!(said["argv"], json!(["bash", "-c", "ls {file}"]));
    assert_eq!((&said["cwd"], &said["stdin"]), (&json!("d"), &json!("in")));
    assert_eq!(said["timeout_ms"], 30_000);
    assert_eq!(answer["meta"]["language"], "bash");
}

#[tokio::test]
async fn what_cannot_run_is_refused_before_anything_is_made() {
    let service = start().await;
    for (body, part) in [
        (json!({"code": " \n"}), "`code` is empty"),
        (
            json!({"code": "1", "timeout_seconds": 0}),
            "between 0.001 and 3600",
        ),
        (
            json!({"code": "1", "timeout_seconds": -1}),
            "between 0.001 and 3600",
        ),
        (
            json!({"code": "1", "timeout_seconds": 3601}),
            "between 0.001 and 3600",
        ),
        (
            json!({"code": "1", "timeout_seconds": "5"}),
            "`timeout_seconds`",
        ),
        (json!({"code": "1", "env": {"A-B": ""}}), "`env`"),
        (json!({"code": "1", "args": ["\0"]}), "`args`"),
        (
            json!({"code": "1", "files": vec![json!({"path": "a", "content": ""}); 257]}),
            "`files`",
        ),
        (
            json!({"code": "1", "files": [{"path": "a", "content": "!", "encoding": "base64"}]}),
            "base64",
        ),
        (
            json!({"code": "1", "files": [{"path": "a", "content": "", "mode": "4755"}]}),
            "`files[0].mode`",
        ),
        (json!({"code": "1", "stream": 1}), "`stream`"),
        (json!({"code": "1", "wait_seconds": -1}), "`wait_seconds`"),
        (
            json!({"code": "1", "wait_seconds": 1, "stream": true}),
            "`wait_seconds`",
        ),
        (
            json!({"code": "1", "execution_id": "a/b"}),
            "`execution_id`",
        ),
        (json!({"code": "1", "context": "c"}), "`context`"),
        (json!({"code": "1", "session_id": "a/b"}), "`session_id`"),
        (json!({}), "`code`"),
    ] {
        let answer = service.post("/execute", body.clone()).await;
        assert_eq!(answer.problem(), (400, "invalid_request".into()), "{body}");
        assert!(
            answer.detail().contains(part),
            "{body}: {}",
            answer.detail()
        );
    }
    for body in [json!({"command": ""}), json!({"command": "a\0b"})] {
        assert_eq!(service.post("/bash", body).await.status, 400);
    }
    assert!(service.sessions.list().is_empty());
}

#[tokio::test]
async fn code_has_its_own_ceiling_below_the_bodys() {
    let service = start_with(Setup {
        settings: HttpSettings {
            max_code_bytes: 10,
            ..settings()
        },
        ..Setup::default()
    })
    .await;
    assert_eq!(
        service
            .post("/execute", json!({"code": "x".repeat(10)}))
            .await
            .status,
        200
    );
    for (route, field) in [("/execute", "code"), ("/bash", "command")] {
        let answer = service.post(route, json!({field: "x".repeat(11)})).await;
        assert_eq!(answer.problem(), (413, "body_too_large".into()));
        assert!(answer.detail().contains(field));
    }
}

#[tokio::test]
async fn a_language_is_in_the_table_and_its_program_in_the_sandbox() {
    let service = start().await;
    let unknown = service
        .post("/execute", json!({"code": "1", "language": "cobol"}))
        .await;
    assert_eq!(unknown.problem(), (422, "unknown_language".into()));
    assert!(unknown.detail().contains("python"));
    let missing = service
        .post("/execute", json!({"code": "1", "language": "rb"}))
        .await;
    assert_eq!(missing.problem(), (422, "not_installed".into()));
    assert_eq!(
        missing.detail(),
        "language `ruby` needs `ruby`, which is not installed in the sandbox; \
         it comes with Debian package ruby"
    );
}

#[tokio::test]
async fn a_backend_that_cannot_is_a_503_without_its_secrets() {
    let service = start_with(Setup {
        backend: FakeBackend {
            problem: Some(Problem::new("/secret/path is missing", "make it")),
            ..FakeBackend::default()
        },
        ..Setup::default()
    })
    .await;
    let answer = service
        .post("/execute", json!({"code": "1", "session_id": "s"}))
        .await;
    assert_eq!(answer.problem(), (503, "backend_unavailable".into()));
    assert!(!answer.header("retry-after").is_empty());
    assert!(!answer.text().contains("secret"));
}

#[tokio::test]
async fn a_dropped_request_kills_its_run_and_is_counted() {
    let service = start().await;
    let running = &service.backend.guest.running;
    let body = json!({"code": "hang", "session_id": "s"});
    {
        let mut request = std::pin::pin!(service.post("/execute", body));
        while running.load(Ordering::SeqCst) == 0 {
            let step = tokio::time::timeout(Duration::from_millis(10), request.as_mut()).await;
            assert!(step.is_err(), "the run ended");
        }
    }
    tokio::time::timeout(Duration::from_secs(10), async {
        while running.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the run was killed");
    let line = "sandbox_exec_total{backend=\"fake\",language=\"python\",outcome=\"cancelled\"} 1";
    // The run's own task counts it.
    let mut metrics = service.get("/metrics").await;
    while !metrics.text().contains(line) {
        tokio::task::yield_now().await;
        metrics = service.get("/metrics").await;
    }
    assert!(
        metrics
            .text()
            .contains("route=\"/execute\",status=\"499\"} 1")
    );
}
