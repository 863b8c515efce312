//! Traffic to a sandbox: envd, the code interpreter, and what else listens there.

mod body;
mod deed;
mod envd;
mod placed;
mod port;
mod stripped;
mod token;

use std::time::Duration;

use axum::{
    Json,
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use e2b_wire::{ENVD_PORT, INTERPRETER_PORT, ProxyError};
use http::StatusCode;
use sandbox_core::{Error, ErrorCode};
use sandbox_http::{E2bTraffic, RouteLabel};
use sandbox_session::Lease;

use crate::{error::Refusal, interpreter, sandbox::Found, state::Facade};

use placed::Placed;
pub(crate) use token::has_any_token;

/// Of a sandbox that traffic has resumed, at least.
const RESUMED_FOR: Duration = Duration::from_secs(300);

/// The route in metrics and log; what programs in sandboxes serve is their own.
pub(crate) fn label(port: u16, path: &str) -> RouteLabel {
    RouteLabel(match (port, path) {
        (ENVD_PORT, "/process.Process/Start") => "envd /process.Process/Start",
        (ENVD_PORT, "/files") => "envd /files",
        (ENVD_PORT, "/health") => "envd /health",
        (ENVD_PORT, path) if path.starts_with("/process.") => "envd /process",
        (ENVD_PORT, path) if path.starts_with("/filesystem.") => "envd /filesystem",
        (ENVD_PORT, _) => "envd other",
        (INTERPRETER_PORT, "/execute") => "interpreter /execute",
        (INTERPRETER_PORT, _) => "interpreter /contexts",
        _ => "port",
    })
}

pub(crate) async fn answer(
    facade: &Facade,
    sandbox: &str,
    port: u16,
    request: Request,
) -> Response {
    let Some(found) = facade.find(sandbox) else {
        return not_found(sandbox);
    };
    let span = tracing::Span::current();
    span.record("session.tenant", found.key.tenant.as_str());
    span.record("session.id", found.key.session.as_str());
    let Ok(place) = facade.requests.take(&found.key.tenant) else {
        return Refusal::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too many requests to the tenant's sandboxes are under way",
        )
        .into_response();
    };
    let kind = match port {
        ENVD_PORT => E2bTraffic::Envd,
        INTERPRETER_PORT => E2bTraffic::Interpreter,
        _ => E2bTraffic::Port,
    };
    let count = facade.metrics.e2b_traffic(kind);
    let answer = match port {
        ENVD_PORT => envd::answer(facade, &found, request).await,
        INTERPRETER_PORT => interpreter::answer(facade, &found, request).await,
        port => port::answer(facade, &found, port, request).await,
    };
    answer.map(|body| {
        Body::new(Placed {
            body,
            _held: (place, count),
        })
    })
}

/// The sandbox, as long as this is held; one that is paused goes on for whoever may.
pub(crate) async fn lease(facade: &Facade, found: &Found) -> Result<Lease, Response> {
    let sandbox = found.key.session.as_str();
    match facade.sessions.lease_existing(&found.key).await {
        Err(error) if error.code() == ErrorCode::SessionPaused && found.options.auto_resume => {
            let left = facade.sessions.get(&found.key).and_then(|info| {
                let since = info.paused?.since;
                Some(info.ends?.since(since))
            });
            let time = left.unwrap_or_default().max(RESUMED_FOR);
            let time = time.min(facade.settings.max_timeout);
            let resumed = facade.sessions.resume(&found.key, Some(time)).await;
            resumed.map_err(|error| unreached(sandbox, error))?;
            let lease = facade.sessions.lease_existing(&found.key).await;
            lease.map_err(|error| unreached(sandbox, error))
        }
        lease => lease.map_err(|error| unreached(sandbox, error)),
    }
}

/// What callers learn of a sandbox that cannot be spoken to.
pub(crate) fn unreached(sandbox: &str, error: Error) -> Response {
    match error.code() {
        ErrorCode::NotFound | ErrorCode::SessionDeleted | ErrorCode::SessionPaused => {
            not_found(sandbox)
        }
        ErrorCode::SandboxLost => proxy_error(ProxyError::port_closed(sandbox, ENVD_PORT)),
        _ => Refusal::from(error).into_response(),
    }
}

pub(crate) fn not_found(sandbox: &str) -> Response {
    proxy_error(ProxyError::not_found(sandbox))
}

pub(crate) fn proxy_error(error: ProxyError) -> Response {
    let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::BAD_GATEWAY);
    (status, Json(error)).into_response()
}
