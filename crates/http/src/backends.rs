//! GET /backends: what each does and enforces, and whether it can.

use std::collections::BTreeMap;

use axum::extract::State;
use sandbox_core::Capability;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    AppState,
    caller::Caller,
    extract::Json,
    health::TroubleResponse,
    problem::{ApiResult, Problem},
};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BackendsResponse {
    backends: Vec<BackendResponse>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BackendResponse {
    name: &'static str,
    /// The one that sessions get.
    default: bool,
    /// What it does, and enforces where it is a limit.
    #[schema(value_type = Vec<String>, example = json!(["exec", "files"]))]
    capabilities: Vec<Capability>,
    /// Which mechanism enforces which limit, for example `memory`: `cgroup v2`.
    enforcement: BTreeMap<&'static str, &'static str>,
    ready: bool,
    problems: Vec<TroubleResponse>,
}

/// The backends that make sandboxes
#[utoipa::path(
    get, path = "/backends", tag = "backends",
    responses((status = 200, description = "Every backend", body = BackendsResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn backends(
    _caller: Caller,
    State(state): State<AppState>,
) -> ApiResult<Json<BackendsResponse>> {
    let parts = state.ready.parts(&state).await;
    let default = state.default_backend();
    let backends = state
        .backends
        .iter()
        .map(|backend| {
            let part = parts.iter().find(|part| part.name == backend.name());
            BackendResponse {
                name: backend.name(),
                default: backend.name() == default,
                capabilities: backend.capabilities().into_iter().collect(),
                enforcement: backend.enforcement(),
                ready: part.is_some_and(|part| part.ready),
                problems: part.map(|part| part.problems.clone()).unwrap_or_default(),
            }
        })
        .collect();
    Ok(Json(BackendsResponse { backends }))
}
