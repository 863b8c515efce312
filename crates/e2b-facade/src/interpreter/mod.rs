//! Port 49999: the code interpreter, over our contexts.
//!
//! Refusals are plain text, as the interpreter's own server says them. Every call needs a
//! token: what is run here must not depend on whether ports are public.

mod contexts;
mod directories;
mod execute;
mod keepalive;
mod lines;
mod output;

use axum::{
    extract::Request,
    response::{IntoResponse, Response},
};
use e2b_wire::ProxyError;
use http::{Method, StatusCode};
use sandbox_core::{Error, ErrorCode};

use crate::{
    control::{parse, read},
    error::Refusal,
    sandbox::Found,
    state::Facade,
    traffic::{has_any_token, lease, proxy_error},
};

pub(crate) use directories::Directories;

/// A refusal in plain text.
#[derive(Debug)]
struct Plain(StatusCode, String);

impl Plain {
    fn bad(message: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, message.into())
    }

    fn no_context(id: &str) -> Self {
        let id: String = id.chars().take(64).collect();
        Self(StatusCode::NOT_FOUND, format!("Context {id} not found"))
    }
}

impl IntoResponse for Plain {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

enum Refused {
    Plain(Plain),
    /// With the headers that say when to ask again.
    AsUsual(Box<Refusal>),
}

impl From<Plain> for Refused {
    fn from(plain: Plain) -> Self {
        Self::Plain(plain)
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::AsUsual(Box::new(refusal))
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error.code() {
            // As it would have been a moment later.
            ErrorCode::SessionPaused | ErrorCode::SessionDeleted => Self::Plain(Plain(
                StatusCode::BAD_GATEWAY,
                "The sandbox was not found".to_owned(),
            )),
            _ => Refusal::from(error).into(),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::Plain(plain) => plain.into_response(),
            Self::AsUsual(refusal) => refusal.into_response(),
        }
    }
}

pub(crate) async fn answer(facade: &Facade, found: &Found, request: Request) -> Response {
    let sandbox = found.key.session.as_str();
    if request.method() == Method::GET && request.uri().path() == "/health" {
        return "OK".into_response();
    }
    if let Err(given) = has_any_token(facade, found, request.headers()) {
        return proxy_error(ProxyError::token_refused(sandbox, given));
    }
    if let Err(error) = facade.admission.request(&found.key.tenant) {
        return Refusal::from(error).into_response();
    }
    let lease = match lease(facade, found).await {
        Ok(lease) => lease,
        Err(refused) => return refused,
    };
    let (head, body) = request.into_parts();
    let parts: Vec<&str> = head.uri.path().split('/').skip(1).collect();
    let most = facade.settings.http.max_body_bytes;
    let answered = match (&head.method, parts.as_slice()) {
        (&Method::POST, ["execute"]) => match read(body, most, facade).await {
            Ok(body) => match parse(&body) {
                Ok(code) => execute::execute(facade, found, lease, code).await,
                Err(refusal) => Err(refusal.into()),
            },
            Err(refusal) => Err(refusal.into()),
        },
        (&Method::POST, ["contexts"]) => match read(body, most, facade).await {
            Ok(body) => match parse(&body) {
                Ok(new) => contexts::create(facade, found, &lease, new).await,
                Err(refusal) => Err(refusal.into()),
            },
            Err(refusal) => Err(refusal.into()),
        },
        (&Method::GET, ["contexts"]) => contexts::list(facade, found, &lease).await,
        (&Method::DELETE, ["contexts", id]) => contexts::delete(facade, found, &lease, id).await,
        (&Method::POST, ["contexts", id, "restart"]) => {
            contexts::restart(facade, found, &lease, id).await
        }
        _ => Err(Plain(StatusCode::NOT_FOUND, "Not Found".to_owned()).into()),
    };
    answered.unwrap_or_else(IntoResponse::into_response)
}
