//! Port 49983: envd, which is our guest.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use e2b_wire::ApiError;
use http::{Method, StatusCode};
use sandbox_core::ErrorCode;

use super::{
    body::{Arriving, Leased},
    deed::Deed,
    lease, not_found, stripped, token, unreached,
};
use crate::{error::Refusal, sandbox::Found, state::Facade};

/// Input to a program may wait for a person; the SDKs show every 50 s that they live.
const INPUT_LIMIT: Duration = Duration::from_secs(600);
const INPUT: &str = "/process.Process/StreamInput";
const HEALTH: &str = "/health";

pub(super) async fn answer(facade: &Facade, found: &Found, request: Request) -> Response {
    let sandbox = found.key.session.as_str();
    let (mut head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    if !guest_client::is_of_the_contract(&head.method, &path) {
        return envd_error(StatusCode::NOT_FOUND, "there is no such route");
    }
    if let Err(denied) = token::envd(facade, found, &head.method, &head.uri, &head.headers) {
        return envd_error(StatusCode::UNAUTHORIZED, denied.0);
    }
    let is_probe = path == HEALTH && head.method == Method::GET;
    let lease = if is_probe {
        // A look whether it runs does not make it run.
        match facade.sessions.lease_existing(&found.key).await {
            Ok(lease) => lease,
            Err(error) => return unreached(sandbox, error),
        }
    } else {
        if let Err(error) = facade.admission.request(&found.key.tenant) {
            return Refusal::from(error).into_response();
        }
        match lease(facade, found).await {
            Ok(lease) => lease,
            Err(refused) => return refused,
        }
    };
    stripped::strip_ours(&mut head.headers);
    stripped::strip_hop(&mut head.headers);
    let limit = match path.as_str() {
        INPUT => INPUT_LIMIT,
        _ => facade.settings.http.body_timeout,
    };
    let (body, deed) = Deed::watch(facade, found, &head, body);
    let body = Arriving::new(body, limit).for_guest();
    let call = lease.guest().forward(http::Request::from_parts(head, body));
    let answered = lease.call(call).await;
    if let Some(deed) = deed {
        let outcome = match &answered {
            Ok(answer) if answer.status().is_success() => "ok",
            Ok(_) => "refused",
            Err(error) => error.code().as_str(),
        };
        deed.record(outcome).await;
    }
    match answered {
        Ok(answer) => answer.map(|body| Body::new(Leased::new(body, Arc::new(lease)))),
        Err(error)
            if error.code() == ErrorCode::SandboxLost && !facade.sessions.knows(&found.key) =>
        {
            not_found(sandbox)
        }
        Err(error) => unreached(sandbox, error),
    }
}

/// As envd says it itself.
fn envd_error(status: StatusCode, message: &str) -> Response {
    (status, Json(ApiError::new(status.as_u16(), message))).into_response()
}
