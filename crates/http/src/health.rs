//! GET /healthz, /readyz and /metrics: open to all, for those who ask have no token.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, join_all},
};
use http::{StatusCode, header};
use sandbox_backend::{Problem as Trouble, Readiness};
use sandbox_core::Error;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{AppState, extract::Json, problem::ApiResult};

/// How long one part may take to say how it is.
const PART_LIMIT: Duration = Duration::from_secs(5);
/// How long /metrics waits for all of them.
const METRICS_PART_LIMIT: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HealthResponse {
    #[schema(example = "ok")]
    status: &'static str,
}

/// Whether the process runs
#[utoipa::path(
    get, path = "/healthz", tag = "health", security(()),
    responses((status = 200, description = "It runs", body = HealthResponse)),
)]
pub(crate) async fn healthz() -> Json<HealthResponse> {
    Json(HealthResponse { status: "ok" })
}

/// Whether sandboxes can be made now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReadyResponse {
    ready: bool,
    parts: Vec<PartResponse>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PartResponse {
    /// `store`, or a backend's name.
    pub(crate) name: &'static str,
    pub(crate) ready: bool,
    pub(crate) problems: Vec<TroubleResponse>,
}

/// What is wrong, and how to mend it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct TroubleResponse {
    what: String,
    fix: String,
}

/// Whether the store and the default backend can serve
#[utoipa::path(
    get, path = "/readyz", tag = "health", security(()),
    responses(
        (status = 200, description = "Every part is ready", body = ReadyResponse),
        (status = 503, description = "A part is not ready", body = ReadyResponse),
    ),
)]
pub(crate) async fn readyz(State(state): State<AppState>) -> (StatusCode, Json<ReadyResponse>) {
    let parts = needed_parts(&state).await;
    let ready = parts.iter().all(|part| part.ready);
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(ReadyResponse { ready, parts }))
}

/// The parts without which the service cannot serve.
async fn needed_parts(state: &AppState) -> Vec<PartResponse> {
    let default = state.default_backend();
    let parts = state.ready.parts(state).await;
    parts
        .iter()
        .filter(|part| part.name == STORE || part.name == default)
        .cloned()
        .collect()
}

/// Metrics in the text format of Prometheus
#[utoipa::path(
    get, path = "/metrics", tag = "health", security(()),
    responses((status = 200, description = "Every metric", body = String, content_type = "text/plain")),
)]
pub(crate) async fn metrics(State(state): State<AppState>) -> ApiResult<Response> {
    // Who does not know in this time is not ready; the other metrics must not wait.
    let ready = tokio::time::timeout(METRICS_PART_LIMIT, needed_parts(&state))
        .await
        .is_ok_and(|parts| parts.iter().all(|part| part.ready));
    state.metrics.set_ready(ready);
    state.metrics.set_runs(state.admission.figures());
    state.metrics.set_audit_queue(state.audit.depth());
    let (kind, text) = state.metrics.render().map_err(Error::internal)?;
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

const STORE: &str = "store";

type Parts = Arc<[PartResponse]>;

struct Asked {
    at: Instant,
    answer: Shared<BoxFuture<'static, Parts>>,
}

/// The last look at every part. Callers at the same time share one look, and
/// for a while after it too, for anybody may ask.
#[derive(Default)]
pub(crate) struct ReadyCache(Mutex<Option<Asked>>);

impl ReadyCache {
    pub(crate) async fn parts(&self, state: &AppState) -> Parts {
        let answer = {
            let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match &*asked {
                Some(asked) if asked.at.elapsed() < state.settings.ready_cache => {
                    asked.answer.clone()
                }
                _ => {
                    let answer = look(state).boxed().shared();
                    *asked = Some(Asked {
                        at: Instant::now(),
                        answer: answer.clone(),
                    });
                    answer
                }
            }
        };
        answer.await
    }
}

fn look(state: &AppState) -> impl Future<Output = Parts> + Send + 'static {
    let store = (state.store)();
    let mut looks = vec![part(STORE, store).boxed()];
    for backend in state.backends.iter() {
        let (name, backend) = (backend.name(), Arc::clone(backend));
        looks.push(part(name, async move { backend.check().await }.boxed()).boxed());
    }
    join_all(looks).map(Parts::from)
}

async fn part(name: &'static str, check: BoxFuture<'static, Readiness>) -> PartResponse {
    let readiness = tokio::time::timeout(PART_LIMIT, check)
        .await
        .unwrap_or_else(|_| Readiness {
            problems: vec![Trouble::new(
                format!("`{name}` did not answer within {} s", PART_LIMIT.as_secs()),
                "look into the log of the service, and at the load of the machine",
            )],
        });
    PartResponse {
        name,
        ready: readiness.ready(),
        problems: readiness
            .problems
            .into_iter()
            .map(|problem| TroubleResponse {
                what: problem.what,
                fix: problem.fix,
            })
            .collect(),
    }
}
