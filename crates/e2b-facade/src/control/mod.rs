//! The control plane: sandboxes by API key.

mod connect;
mod create;
mod detail;
mod extract;
mod life;
mod list;
mod network;
mod page;
mod refused;

use std::time::Duration;

use axum::{
    Router,
    routing::{delete, get, post, put},
};
use http::{Method, StatusCode, Uri};
use sandbox_core::{E2bOptions, SessionKey};
use sandbox_http::RouteLabel;
use sandbox_session::SessionInfo;

use crate::{
    caller::Caller,
    error::{Answer, Refusal},
    sandbox::no_sandbox,
    state::Facade,
};

pub(crate) use create::environment;
pub(crate) use extract::{parse, read};

/// The name of the client that made a sandbox, which nobody looks at any more.
const CLIENT_ID: &str = "sandboxd";
/// What of envd there is.
const ENVD_VERSION: &str = "0.6.4";
/// Of sandboxes for which no time is asked, by the newer and the older routes.
const USUAL_TIMEOUT: Duration = Duration::from_secs(300);
const USUAL_TIMEOUT_V1: Duration = Duration::from_secs(15);

pub(crate) fn router(facade: Facade) -> Router {
    Router::new()
        .route("/health", get(|| async { "Health check successful" }))
        .route("/sandboxes", post(create::v1).get(list::v1))
        .route("/v2/sandboxes", post(create::v2).get(list::v2))
        .route("/sandboxes/{id}", get(detail::detail).delete(life::kill))
        .route("/sandboxes/{id}/connect", post(connect::connect))
        .route("/v2/sandboxes/{id}/connect", post(connect::connect))
        .route("/sandboxes/{id}/resume", post(connect::resume))
        .route("/sandboxes/{id}/timeout", post(life::set_timeout))
        .route("/sandboxes/{id}/refreshes", post(life::refresh))
        .route("/sandboxes/{id}/pause", post(life::pause))
        .route("/sandboxes/{id}/metrics", get(detail::metrics))
        .route("/sandboxes/{id}/network", put(network::update))
        .route("/sandboxes/{id}/fork", post(refused::fork))
        .route("/sandboxes/{id}/snapshots", post(refused::snapshots))
        .route("/sandboxes/{id}/logs", get(refused::logs))
        .route("/v2/sandboxes/{id}/logs", get(refused::logs))
        .route("/snapshots", get(refused::snapshots))
        .route("/templates/{id}", delete(refused::templates))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .with_state(facade)
}

/// The route in metrics and log.
pub(crate) fn label(path: &str) -> RouteLabel {
    let versionless = ["/v2", "/v3"]
        .iter()
        .find_map(|version| path.strip_prefix(version))
        .unwrap_or(path);
    let mut parts = versionless.split('/').filter(|part| !part.is_empty());
    let (first, _, action) = (parts.next(), parts.next(), parts.next());
    RouteLabel(match (first, action) {
        (Some("sandboxes"), None) => "/sandboxes",
        (Some("sandboxes"), Some("connect" | "resume")) => "/sandboxes/connect",
        (Some("sandboxes"), Some("timeout" | "refreshes")) => "/sandboxes/timeout",
        (Some("sandboxes"), Some("pause")) => "/sandboxes/pause",
        (Some("sandboxes"), Some("metrics")) => "/sandboxes/metrics",
        (Some("health"), None) => "/health",
        _ => "other",
    })
}

async fn no_route(_: Caller, uri: Uri) -> Refusal {
    refused::by_path(uri.path())
}

async fn no_method(method: Method) -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("the route does not take {method}"),
    )
}

/// A sandbox of the caller's.
struct Own {
    key: SessionKey,
    info: SessionInfo,
    options: E2bOptions,
}

fn own(facade: &Facade, caller: &Caller, id: &str) -> Answer<Own> {
    let (info, options) = facade
        .own(&caller.tenant, id)
        .ok_or_else(|| no_sandbox(id))?;
    tracing::Span::current().record("session.id", info.key.session.as_str());
    Ok(Own {
        key: info.key.clone(),
        info,
        options,
    })
}

/// A time that a client may ask for.
fn timeout(facade: &Facade, seconds: u32) -> Answer<Duration> {
    let asked = Duration::from_secs(seconds.into());
    let most = facade.settings.max_timeout;
    if asked > most {
        return Err(Refusal::bad(format!(
            "Timeout cannot be greater than {} seconds",
            most.as_secs()
        )));
    }
    Ok(asked)
}
