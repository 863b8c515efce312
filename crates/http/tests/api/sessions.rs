//! Sessions as clients see them.

use axum::body::Body;
use serde_json::{Value, json};

use crate::support::{Service, start};

async fn with_sessions(keys: &[(&str, &str)]) -> Service {
    let service = start().await;
    for (tenant, session) in keys {
        let body = json!({"command": "true", "tenant_id": tenant, "session_id": session});
        assert_eq!(service.post("/bash", body).await.status, 200);
    }
    service
}

async fn page(service: &Service, query: &str) -> (Vec<String>, Option<String>) {
    let answer = service.get(&format!("/sessions{query}")).await;
    assert_eq!(answer.status, 200, "{:?}", answer.bytes);
    let answer = answer.json();
    let name = |session: &Value| {
        let part = |name: &str| session[name].as_str().unwrap().to_owned();
        format!("{}/{}", part("tenant_id"), part("session_id"))
    };
    let names = answer["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(name)
        .collect();
    (names, answer["next_cursor"].as_str().map(str::to_owned))
}

#[tokio::test]
async fn a_session_shows_its_state_limits_and_usage() {
    let service = with_sessions(&[("default", "s")]).await;
    let answer = service.get("/sessions/default/s").await;
    assert_eq!(
        answer.json(),
        json!({
            "tenant_id": "default", "session_id": "s", "state": "running", "backend": "fake",
            "created": "1970-01-01T00:00:00.000Z", "last_used": "1970-01-01T00:00:00.000Z",
            "expires": "1970-01-01T00:15:00.000Z", "active_runs": 0, "queued_runs": 0,
            "idle_timeout_seconds": 900, "labels": {}, "env": [], "network": "disabled",
            "limits": {
                "memory_bytes": 512 << 20, "cpus": 1.0, "pids": 256,
                "disk_bytes": 1 << 30, "tmp_bytes": 64 << 20,
            },
            "usage": {"memory_bytes": 4096, "cpu_seconds": 0.5, "pids": null, "disk_bytes": 4096, "warm_python_bytes": null},
        })
    );
}

#[tokio::test]
async fn a_long_list_comes_in_pages_that_miss_and_repeat_nothing() {
    let keys = [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("c", "1")];
    let service = with_sessions(&keys).await;
    let mut seen = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let (names, next) = page(&service, &query).await;
        assert!(names.len() <= 2);
        seen.extend(names);
        match next {
            Some(cursor) => query = format!("?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, ["a/1", "a/2", "b/1", "b/2", "c/1"]);
    for bad in [
        "?limit=0",
        "?limit=1001",
        "?limit=x",
        "?cursor=!",
        "?tenant_id=..",
    ] {
        let answer = service.get(&format!("/sessions{bad}")).await;
        assert_eq!(answer.problem(), (400, "invalid_request".into()), "{bad}");
    }
}

#[tokio::test]
async fn a_list_is_filtered_by_tenant_state_and_backend() {
    let service = with_sessions(&[("a", "1"), ("b", "1")]).await;
    for (query, want) in [
        ("?tenant_id=a", vec!["a/1"]),
        ("?backend=fake&state=running", vec!["a/1", "b/1"]),
        ("?backend=other", vec![]),
        ("?state=gone", vec![]),
        ("?tenant_id=none", vec![]),
    ] {
        assert_eq!(page(&service, query).await.0, want, "{query}");
    }
}

#[tokio::test]
async fn a_deleted_session_is_gone() {
    let service = with_sessions(&[("default", "s")]).await;
    let path = "/v1/sandbox/sessions/default/s";
    let deleted = service.send("DELETE", path, &[], Body::empty()).await;
    assert_eq!((deleted.status.as_u16(), deleted.bytes.len()), (204, 0));
    let again = service.send("DELETE", path, &[], Body::empty()).await;
    assert_eq!(again.problem(), (404, "not_found".into()));
    assert_eq!(service.get(path).await.problem(), (404, "not_found".into()));
    for bad in ["/sessions/-a/s", "/sessions/a/%2e%2e", "/sessions/a/%ff"] {
        assert_eq!(service.get(bad).await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn a_paused_session_refuses_calls_until_it_is_resumed() {
    let service = with_sessions(&[("default", "s")]).await;
    let (pause, resume) = ("/sessions/default/s/pause", "/sessions/default/s/resume");
    let answer = service.post(pause, json!({"memory": false})).await;
    assert_eq!(answer.status, 200, "{:?}", answer.bytes);
    let shown = answer.json();
    assert_eq!(shown["state"], "paused");
    assert_eq!(
        shown["paused"],
        json!({"since": "1970-01-01T00:00:00.000Z", "with_memory": false})
    );
    let run = json!({"command": "true", "session_id": "s"});
    for (path, body) in [("/bash", run.clone()), (pause, json!({}))] {
        let answer = service.post(path, body).await;
        assert_eq!(answer.problem(), (409, "session_paused".into()), "{path}");
    }
    assert_eq!(
        service.get("/sessions/default/s").await.json()["state"],
        "paused"
    );
    for bad in [json!({"ttl_seconds": 0}), json!({"memory": true})] {
        let answer = service.post(resume, bad).await;
        assert_eq!(answer.problem(), (400, "invalid_request".into()));
    }
    let answer = service.post(resume, json!({"ttl_seconds": 60})).await;
    assert_eq!(answer.status, 200, "{:?}", answer.bytes);
    let shown = answer.json();
    assert_eq!(
        (&shown["state"], &shown["paused"]),
        (&json!("running"), &Value::Null)
    );
    assert_eq!(shown["ends"], "1970-01-01T00:01:00.000Z");
    assert_eq!(service.post("/bash", run).await.status, 200);
    let answer = service
        .post("/sessions/default/none/pause", json!({}))
        .await;
    assert_eq!(answer.problem(), (404, "not_found".into()));
}
