//! /healthz, /readyz, /backends and /metrics.

use std::time::Duration;

use axum::body::Body;
use sandbox_admission::AdmissionSettings;
use sandbox_backend::{Problem, Readiness};
use sandbox_http::{Declared, HttpSettings, Metrics};
use serde_json::json;

use crate::support::{FakeBackend, Setup, settings, start, start_with};

fn broken() -> FakeBackend {
    FakeBackend {
        problem: Some(Problem::new(
            "bubblewrap is missing",
            "apt install bubblewrap",
        )),
        ..FakeBackend::default()
    }
}

#[tokio::test]
async fn readiness_names_each_part_and_how_to_mend_it() {
    let ready = start().await.get("/readyz").await;
    assert_eq!(ready.status, 200);
    assert_eq!(
        ready.json(),
        json!({"ready": true, "parts": [
            {"name": "store", "ready": true, "problems": []},
            {"name": "fake", "ready": true, "problems": []},
        ]})
    );
    let setup = Setup {
        backend: broken(),
        store: || Readiness {
            problems: vec![Problem::new("the store does not answer", "start it")],
        },
        ..Setup::default()
    };
    let service = start_with(setup).await;
    let metrics = service.get("/metrics").await;
    assert!(metrics.text().contains("\nsandbox_ready 0\n"));
    let answer = service.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert_eq!(
        answer.json(),
        json!({"ready": false, "parts": [
            {"name": "store", "ready": false, "problems": [{"what": "the store does not answer", "fix": "start it"}]},
            {"name": "fake", "ready": false, "problems": [{"what": "bubblewrap is missing", "fix": "apt install bubblewrap"}]},
        ]})
    );
    let alive = service.get("/healthz").await;
    assert_eq!(
        (alive.status.as_u16(), alive.json()),
        (200, json!({"status": "ok"}))
    );
}

#[tokio::test]
async fn those_who_ask_at_once_share_one_look() {
    let setup = Setup {
        settings: HttpSettings {
            ready_cache: Duration::from_secs(3600),
            ..settings()
        },
        ..Setup::default()
    };
    let service = start_with(setup).await;
    futures::future::join_all((0..50).map(|_| service.get("/readyz"))).await;
    service.get("/backends").await;
    assert_eq!(*service.backend.checks.lock().unwrap(), 1);
}

#[tokio::test]
async fn backends_say_what_they_do_and_enforce() {
    let service = start().await;
    assert_eq!(
        service.get("/backends").await.json(),
        json!({"backends": [{
            "name": "fake", "default": true, "capabilities": ["exec", "files", "persistent_workspace"],
            "enforcement": {"memory": "good manners"}, "ready": true, "problems": [],
        }]})
    );
}

#[tokio::test]
async fn every_metric_that_is_declared_is_set() {
    let service = start_with(Setup {
        admission: AdmissionSettings {
            requests_per_second: 1,
            request_burst: 2,
            ..AdmissionSettings::default()
        },
        ..Setup::default()
    })
    .await;
    let body = json!({"command": "true", "session_id": "s"});
    assert_eq!(service.post("/bash", body.clone()).await.status, 200);
    let named = json!({"command": "true", "session_id": "s", "tenant_id": "default"});
    assert_eq!(service.post("/bash", named).await.status, 200);
    assert_eq!(service.post("/bash", body).await.status, 429);
    let deleted = service
        .send("DELETE", "/sessions/default/s", &[], Body::empty())
        .await;
    assert_eq!(deleted.status, 204);
    let answer = service.get("/metrics").await;
    assert!(answer.header("content-type").starts_with("text/plain"));
    let text = answer.text();
    for Declared { name, .. } in Metrics::DECLARED {
        let samples: Vec<&str> = text
            .lines()
            .filter(|line| {
                ["{", " ", "_count{", "_count "]
                    .iter()
                    .any(|end| line.starts_with(&format!("{name}{end}")))
            })
            .collect();
        assert!(!samples.is_empty(), "`{name}` has no sample");
        // A gauge may be back at zero; all others count.
        let set = samples.iter().any(|line| !line.ends_with(" 0"));
        let at_zero = [
            "sandbox_sessions_active",
            "sandbox_pool_ready",
            "sandbox_runs_active",
            "sandbox_runs_waiting",
            "sandbox_audit_queue_depth",
            "sandbox_e2b_traffic_active",
        ];
        assert!(set || at_zero.contains(name), "`{name}` was never set");
        assert!(
            text.contains(&format!("# HELP {name} ")),
            "`{name}` has no help"
        );
    }
    for name in [
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        assert!(text.contains(&format!("\n{name} ")), "`{name}` is missing");
    }
    assert!(!text.contains("session=\"s\""));
}

#[tokio::test]
async fn what_a_client_invents_is_no_label() {
    let service = start().await;
    service.get("/no/such/path").await;
    service.send("BREW", "/healthz", &[], Body::empty()).await;
    service
        .post("/execute", json!({"code": "1", "language": "invented"}))
        .await;
    let text = service.get("/metrics").await;
    assert!(
        text.text()
            .contains("method=\"GET\",route=\"unmatched\",status=\"404\"")
    );
    for invented in ["such", "BREW", "invented"] {
        assert!(!text.text().contains(invented), "{invented}");
    }
}
