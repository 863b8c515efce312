//! A service to send requests to.

mod backend;
mod guest;

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes},
};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use sandbox_admission::{Admission, AdmissionSettings};
use sandbox_audit::{Audit, AuditSettings};
use sandbox_backend::{Backend, Readiness};
use sandbox_core::{Clock, ManualClock, Timestamp};
use sandbox_execution::{
    ArtifactSettings, Artifacts, ExecutionSettings, Executions, Parts, ProcessSettings, Processes,
};
use sandbox_http::{
    AppParts, AppState, Auth, E2bTraffic, HttpSettings, LanguageTable, Metrics, SessionWatch,
    router,
};
use sandbox_session::{SessionManager, SessionSettings};
use sandbox_store::{SqliteStore, Store};
use serde_json::Value;
use tower::ServiceExt as _;

pub use backend::FakeBackend;
pub use guest::FILE;

/// What a test may set; the rest is as in a fresh installation.
pub struct Setup {
    pub auth: Auth,
    pub settings: HttpSettings,
    pub admission: AdmissionSettings,
    pub backend: FakeBackend,
    pub store: fn() -> Readiness,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            auth: Auth::off(),
            settings: settings(),
            admission: AdmissionSettings::default(),
            backend: FakeBackend::default(),
            store: Readiness::default,
        }
    }
}

pub fn settings() -> HttpSettings {
    HttpSettings::new(LanguageTable::built_in().unwrap())
}

pub struct Service {
    pub router: Router,
    pub backend: FakeBackend,
    pub sessions: Arc<SessionManager>,
}

pub async fn start() -> Service {
    start_with(Setup::default()).await
}

pub async fn start_with(setup: Setup) -> Service {
    let metrics = Arc::new(Metrics::new().unwrap());
    metrics.set_sessions_limit(SessionSettings::default().max_sessions);
    drop(metrics.e2b_traffic(E2bTraffic::Port));
    metrics.set_e2b_certificate_expires(Some(Timestamp(1_900_000_000_000)));
    let backend: Arc<dyn Backend> = Arc::new(setup.backend.clone());
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().await.unwrap());
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let audit = Audit::start(
        Arc::clone(&store),
        Arc::clone(&clock),
        AuditSettings::default(),
    );
    let sessions = SessionManager::start(
        SessionSettings::default(),
        Arc::clone(&backend),
        Arc::clone(&store) as _,
        Arc::clone(&clock),
        Arc::new(SessionWatch {
            metrics: Arc::clone(&metrics),
            audit: audit.clone(),
        }),
    )
    .await
    .unwrap();
    let admission = Arc::new(Admission::observed(
        setup.admission,
        Arc::clone(&metrics) as _,
    ));
    let artifacts = Artifacts::start(
        ArtifactSettings {
            retention: None,
            tenant_bytes: 1 << 30,
        },
        Arc::clone(&store) as _,
        Arc::clone(&sessions),
        Arc::clone(&clock),
    );
    let executions = Executions::new(
        ExecutionSettings::default(),
        Parts {
            sessions: Arc::clone(&sessions),
            admission: Arc::clone(&admission),
            audit: audit.clone(),
            artifacts: artifacts.clone(),
            claims: Arc::clone(&store) as _,
            clock: Arc::clone(&clock),
            observer: Arc::clone(&metrics) as _,
        },
    );
    let processes = Processes::new(
        ProcessSettings::default(),
        Arc::clone(&sessions),
        audit.clone(),
        Arc::clone(&clock),
    );
    let ready = setup.store;
    let state = AppState::new(AppParts {
        sessions: Arc::clone(&sessions),
        admission,
        executions,
        processes,
        artifacts,
        audit,
        audit_trail: store,
        backends: vec![backend],
        store: Arc::new(move || Box::pin(async move { ready() })),
        auth: setup.auth,
        metrics,
        settings: setup.settings,
        spans: None,
    });
    Service {
        router: router(state),
        backend: setup.backend,
        sessions,
    }
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("not JSON: {:?}", self.bytes))
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Status and code of a problem.
    pub fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/problem+json");
        let code = self.json()["code"].as_str().unwrap().to_owned();
        (self.status.as_u16(), code)
    }

    pub fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap().to_owned()
    }
}

impl Service {
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            bytes: body.collect().await.unwrap().to_bytes(),
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], Body::empty()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.post_with(path, &[], body).await
    }

    pub async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Answer {
        let mut all = vec![("content-type", "application/json")];
        all.extend(headers);
        self.send("POST", path, &all, body.to_string()).await
    }
}
