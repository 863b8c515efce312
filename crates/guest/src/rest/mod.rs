//! The plain HTTP routes: /health, /init, /envs, /metrics and /files of the contract,
//! and our own /ports.

mod compose;
mod download;
mod encoding;
mod metrics;
mod upload;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::Arc,
};

use bytes::Bytes;
use connectrpc::ConnectError;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Collected, Empty, Full, Limited, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{ports, state::Guest, users};

const MAX_JSON_BYTES: usize = 4 * 1024 * 1024;

type Body = UnsyncBoxBody<Bytes, io::Error>;
pub(crate) type Answer = Response<Body>;

/// The variables that a sandbox starts with; what the contract has beyond it is
/// for other places than ours.
#[derive(Deserialize)]
struct Init {
    #[serde(default, rename = "envVars")]
    env: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "defaultWorkdir")]
    default_dir: Option<String>,
    #[serde(default, rename = "defaultUser")]
    default_user: Option<String>,
}

pub(crate) async fn handle(guest: Arc<Guest>, request: Request<Incoming>) -> Answer {
    if let Some(port) = request.uri().path().strip_prefix("/ports/") {
        let port = port.to_owned();
        return ports::handle(&guest.ports, &port, request).await;
    }
    let route = (request.method().clone(), request.uri().path().to_owned());
    let result = match (&route.0, route.1.as_str()) {
        (&Method::GET, "/health") => Ok(empty(StatusCode::NO_CONTENT)),
        (&Method::POST, "/init") => init(&guest, request).await,
        (&Method::GET, "/envs") => Ok(json_answer(StatusCode::OK, &guest.env())),
        (&Method::GET, "/metrics") => metrics::metrics(&guest.workspace).await,
        (&Method::GET, "/files") => download::download(&guest, &request).await,
        (&Method::POST, "/files/compose") => compose::compose(&guest, request).await,
        (&Method::POST, "/files") => upload::upload(&guest, request).await,
        _ => Err(ConnectError::not_found("there is no such route")),
    };
    result.unwrap_or_else(|failed| {
        let status = match failed.code {
            connectrpc::ErrorCode::ResourceExhausted => StatusCode::INSUFFICIENT_STORAGE,
            _ => failed.http_status(),
        };
        refusal(status, &failed.message.unwrap_or_default())
    })
}

/// An error as the contract words it.
pub(crate) fn refusal(status: StatusCode, message: &str) -> Answer {
    let body = json!({ "code": status.as_u16(), "message": message });
    json_answer(status, &body)
}

pub(crate) fn empty(status: StatusCode) -> Answer {
    let body = Empty::new().map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = status;
    answer
}

fn json_answer(status: StatusCode, body: &impl Serialize) -> Answer {
    let text = serde_json::to_vec(body).unwrap_or_default();
    let body = Full::from(text).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

async fn init(guest: &Guest, request: Request<Incoming>) -> Result<Answer, ConnectError> {
    let body = small_body(request).await?;
    let init: Init = serde_json::from_slice(&body)
        .map_err(|cause| ConnectError::invalid_argument(cause.to_string()))?;
    if let Some(name) = init.default_user.filter(|name| !name.is_empty()) {
        users::check(&name)?;
    }
    if let Some(dir) = init.default_dir.filter(|dir| !dir.is_empty()) {
        guest.set_default_dir(guest.place(&dir)?);
    }
    guest.add_env(init.env.unwrap_or_default());
    Ok(empty(StatusCode::NO_CONTENT))
}

async fn small_body(request: Request<Incoming>) -> Result<Bytes, ConnectError> {
    let body = Limited::new(request.into_body(), MAX_JSON_BYTES);
    let body = body.collect().await;
    body.map(Collected::to_bytes)
        .map_err(|_| ConnectError::invalid_argument("the body is too large or broken"))
}

/// What a query says of a file.
struct Query {
    path: Option<String>,
}

/// The user of a query must be there.
fn query(request: &Request<Incoming>) -> Result<Query, ConnectError> {
    let query = request.uri().query().unwrap_or_default();
    let mut query: HashMap<_, _> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    if let Some(name) = query.get("username") {
        users::check(name)?;
    }
    Ok(Query {
        path: query.remove("path"),
    })
}
