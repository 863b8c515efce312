//! An API to send requests to.

use std::{
    collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, sync::Arc, time::Duration,
};

use axum::{Router, body::Body};
use backend_local::{LocalBackend, LocalConfig};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use sandbox_admission::{Admission, AdmissionSettings};
use sandbox_audit::{Audit, AuditSettings};
use sandbox_auth::{ApiKey, ApiKeys, Auth};
use sandbox_backend::Backend;
use sandbox_core::{ByteSize, Clock, Limits, ManualClock, Timestamp};
use sandbox_e2b::{E2bParts, E2bSettings, Secret, Template, router};
use sandbox_execution::{
    ArtifactSettings, Artifacts, ExecutionSettings, Executions, Observer as RunObserver, Parts,
};
use sandbox_http::{HttpSettings, LanguageTable, Metrics};
use sandbox_session::{NoObserver, SessionManager, SessionSettings};
use sandbox_store::{
    AuditFilter, AuditRecord, AuditStore as _, KeyRecord, KeyStore as _, SqliteStore, Store,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

/// Of the users that the sandboxes of one test run as.
const USERS: u32 = 256;
const FIRST_USER: u32 = 1_900_030_000;

/// What a test may choose.
pub struct Setup {
    pub domain: Option<&'static str>,
    pub admission: AdmissionSettings,
    pub max_sessions: usize,
    /// WebSockets of a tenant, and of all.
    pub sockets: (usize, usize),
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            domain: None,
            admission: AdmissionSettings::default(),
            max_sessions: 10,
            sockets: (256, 1024),
        }
    }
}

pub struct Api {
    pub router: Router,
    pub clock: ManualClock,
    /// Of tenants `a` and `b`.
    pub keys: [String; 2],
    pub sessions: Arc<SessionManager>,
    pub store: Arc<SqliteStore>,
    pub audit: Audit,
    pub metrics: Arc<Metrics>,
    _state: TempDir,
}

struct Nobody;

impl RunObserver for Nobody {
    fn run_ended(&self, _: &str, _: &str, _: &str, _: Duration) {}
}

pub async fn start() -> Api {
    start_with(Setup::default()).await
}

pub async fn start_with(setup: Setup) -> Api {
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let guest = guest_binary::materialise(&state.path().join("guest")).unwrap();
    let mut config = LocalConfig::new(state.path().join("state"), guest);
    config.uid_range = next_users();
    let backend: Arc<dyn Backend> = LocalBackend::new(config).unwrap();
    let store = Arc::new(SqliteStore::in_memory().await.unwrap());
    let clock = ManualClock::default();
    clock.advance(Duration::from_millis(1_700_000_000_000));
    let time: Arc<dyn Clock> = Arc::new(clock.clone());
    let audit = Audit::start(
        Arc::clone(&store) as Arc<dyn Store>,
        Arc::clone(&time),
        AuditSettings::default(),
    );
    let sessions = SessionManager::start(
        SessionSettings {
            max_sessions: setup.max_sessions,
            reap_interval: Duration::from_millis(50),
            ..SessionSettings::default()
        },
        Arc::clone(&backend),
        Arc::clone(&store) as _,
        Arc::clone(&time),
        Arc::new(NoObserver),
    )
    .await
    .unwrap();
    let admission = Arc::new(Admission::new(setup.admission));
    let artifacts = ArtifactSettings {
        retention: None,
        tenant_bytes: 1 << 30,
    };
    let artifacts = Artifacts::start(
        artifacts,
        Arc::clone(&store) as _,
        Arc::clone(&sessions),
        Arc::clone(&time),
    );
    let executions = Executions::new(
        ExecutionSettings::default(),
        Parts {
            sessions: Arc::clone(&sessions),
            admission: Arc::clone(&admission),
            audit: audit.clone(),
            artifacts,
            claims: Arc::clone(&store) as _,
            clock: Arc::clone(&time),
            observer: Arc::new(Nobody),
        },
    );
    let keys = [key(&store, "a").await, key(&store, "b").await];
    let mut settings = E2bSettings::new(HttpSettings::new(LanguageTable::built_in().unwrap()));
    settings.domain = setup.domain.map(|domain| domain.parse().unwrap());
    (settings.tenant_sockets, settings.sockets) = setup.sockets;
    settings.max_timeout = Duration::from_secs(3600);
    settings.templates = BTreeMap::from([("small".to_owned(), small())]);
    let metrics = Arc::new(Metrics::new().unwrap());
    let router = router(E2bParts {
        sessions: Arc::clone(&sessions),
        executions,
        admission,
        auth: Auth::on(None, Some(ApiKeys::new(Arc::clone(&store) as _))),
        audit: audit.clone(),
        metrics: Arc::clone(&metrics),
        clock: time,
        capabilities: backend.capabilities(),
        secret: Secret::new([7; 32]),
        settings,
    });
    Api {
        router,
        clock,
        keys,
        sessions,
        store,
        audit,
        metrics,
        _state: state,
    }
}

fn small() -> Template {
    Template {
        image: None,
        limits: Limits {
            memory: ByteSize::mib(300),
            ..Limits::default()
        },
    }
}

fn next_users() -> std::ops::RangeInclusive<u32> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = FIRST_USER + NEXT.fetch_add(1, Ordering::Relaxed) * USERS;
    first..=first + USERS - 1
}

async fn key(store: &SqliteStore, tenant: &str) -> String {
    let key = ApiKey::generate_e2b().unwrap();
    let record = KeyRecord {
        id: key.id().to_owned(),
        tenant: tenant.parse().unwrap(),
        admin: false,
        name: String::new(),
        secret_sha256: key.secret_sha256(),
        created_at: Timestamp(1),
        revoked_at: None,
    };
    store.add_key(&record).await.unwrap();
    key.reveal()
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("no JSON: {:?}", self.bytes))
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }

    /// Status and words of an error, whose body says its status too.
    pub fn error(&self) -> (u16, String) {
        let body = self.json();
        assert_eq!(body["code"], self.status.as_u16(), "{body}");
        (
            self.status.as_u16(),
            body["message"].as_str().unwrap().to_owned(),
        )
    }
}

/// A sandbox and what opens it.
pub struct Sandbox {
    pub id: String,
    pub envd: String,
    pub traffic: String,
}

impl Sandbox {
    /// The headers of a stream of envd's.
    pub fn of_a_stream(&self) -> [(&str, &str); 5] {
        [
            ("e2b-sandbox-id", &self.id),
            ("e2b-sandbox-port", "49983"),
            ("x-access-token", &self.envd),
            ("content-type", "application/connect+json"),
            ("connect-protocol-version", "1"),
        ]
    }
}

impl Api {
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let (head, body) = self.begin(method, path, headers, body).await.into_parts();
        Answer {
            status: head.status,
            headers: head.headers,
            bytes: body.collect().await.unwrap().to_bytes(),
        }
    }

    pub async fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> http::Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "127.0.0.1:1");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// A call of the control plane by tenant `a`.
    pub async fn call(&self, method: &str, path: &str, body: Value) -> Answer {
        self.call_as(0, method, path, body).await
    }

    pub async fn call_as(&self, who: usize, method: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.send(method, path, &[("x-api-key", &self.keys[who])], body)
            .await
    }

    pub async fn create(&self, more: Value) -> Sandbox {
        self.create_as(0, more).await
    }

    pub async fn create_as(&self, who: usize, more: Value) -> Sandbox {
        let mut body = json!({"templateID": "base", "timeout": 600});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let made = self.call_as(who, "POST", "/v2/sandboxes", body).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let made = made.json();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        Sandbox {
            id: text("sandboxID"),
            envd: text("envdAccessToken"),
            traffic: text("trafficAccessToken"),
        }
    }

    /// A call to a port of a sandbox, with both of its tokens.
    pub async fn to(
        &self,
        sandbox: &Sandbox,
        port: &str,
        method: &str,
        path: &str,
        body: impl Into<Body>,
    ) -> Answer {
        let headers = [
            ("e2b-sandbox-id", sandbox.id.as_str()),
            ("e2b-sandbox-port", port),
            ("x-access-token", &sandbox.envd),
            ("e2b-traffic-access-token", &sandbox.traffic),
            ("content-type", "application/json"),
        ];
        self.send(method, path, &headers, body).await
    }

    /// Runs a shell line by envd's Start and gives all that came of it.
    pub async fn shell(&self, sandbox: &Sandbox, line: &str) -> Vec<Value> {
        let start = json!({
            "process": {"cmd": "/bin/bash", "args": ["-c", line]}, "stdin": false,
        });
        let headers = sandbox.of_a_stream();
        let body = frame(&start.to_string());
        let answer = self
            .send("POST", "/process.Process/Start", &headers, body)
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        frames(&answer.bytes)
    }

    /// How much traffic of this kind goes on, by the metric.
    pub fn under_way(&self, kind: &str) -> u32 {
        let (_, text) = self.metrics.render().unwrap();
        let text = String::from_utf8(text).unwrap();
        let name = format!("sandbox_e2b_traffic_active{{kind=\"{kind}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&name));
        value.map_or(0, |value| value.parse().unwrap())
    }

    pub async fn audited(&self) -> Vec<AuditRecord> {
        self.audit.flush(Duration::from_secs(5)).await.unwrap();
        let all = AuditFilter::default();
        self.store.oldest(&all, None, 100).await.unwrap()
    }
}

pub fn frame(message: &str) -> Vec<u8> {
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message.as_bytes());
    frame
}

pub fn frames(mut bytes: &[u8]) -> Vec<Value> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(5) {
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        found.push(serde_json::from_slice(&rest[..length]).unwrap());
        bytes = &rest[length..];
    }
    found
}
