//! GET /openapi.json, and /docs: a page that shows it, with nothing from elsewhere.

use axum::{
    extract::Extension,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::header;

/// The document, made once.
#[derive(Clone)]
pub(crate) struct Document(pub(crate) Bytes);

const PAGE: &str = include_str!("docs.html");
/// The page's script and style, and the document beside it: nothing else loads.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// This document
#[utoipa::path(
    get, path = "/openapi.json", tag = "docs", security(()),
    responses((status = 200, description = "OpenAPI 3.1", content_type = "application/json")),
)]
pub(crate) async fn openapi_json(Extension(document): Extension<Document>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document.0).into_response()
}

/// This document as a page
#[utoipa::path(
    get, path = "/docs", tag = "docs", security(()),
    responses((status = 200, description = "The page", body = String, content_type = "text/html")),
)]
pub(crate) async fn page() -> Response {
    asset("text/html; charset=utf-8", PAGE)
}

pub(crate) async fn script() -> Response {
    asset("text/javascript; charset=utf-8", include_str!("docs.js"))
}

pub(crate) async fn style() -> Response {
    asset("text/css; charset=utf-8", include_str!("docs.css"))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    (
        [
            (header::CONTENT_TYPE, kind),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
        ],
        text,
    )
        .into_response()
}
