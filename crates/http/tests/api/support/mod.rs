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
use sandbox_backend::{Backend, Readiness};
use sandbox_core::ManualClock;
use sandbox_http::{AppState, Auth, HttpSettings, LanguageTable, Metrics, router};
use sandbox_session::{SessionManager, SessionSettings};
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
    let backend: Arc<dyn Backend> = Arc::new(setup.backend.clone());
    let sessions = SessionManager::start(
        SessionSettings::default(),
        Arc::clone(&backend),
        registry().await,
        Arc::new(ManualClock::default()),
        Arc::clone(&metrics) as _,
    )
    .await
    .unwrap();
    let store = setup.store;
    let admission = Arc::new(Admission::observed(
        setup.admission,
        Arc::clone(&metrics) as _,
    ));
    let state = AppState::new(
        Arc::clone(&sessions),
        vec![backend],
        Arc::new(move || Box::pin(async move { store() })),
        setup.auth,
        metrics,
        setup.settings,
    )
    .with_admission(admission)
    .with_audit_queue_depth(Arc::new(|| 3));
    Service {
        router: router(state),
        backend: setup.backend,
        sessions,
    }
}

async fn registry() -> Arc<dyn sandbox_store::SessionStore> {
    Arc::new(sandbox_store::SqliteStore::in_memory().await.unwrap())
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
