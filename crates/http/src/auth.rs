//! What a request shows to say who calls, in its headers.

use http::{HeaderMap, HeaderName, header};
use sandbox_auth::{ApiKey, Auth, Credential};
use sandbox_core::{Error, ErrorCode, Result};

use crate::caller::Caller;

pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

pub(crate) async fn caller(auth: &Auth, headers: &HeaderMap) -> Result<Caller> {
    let credential = if auth.is_off() {
        refuse_foreign_pages(headers)?;
        None
    } else {
        credential(headers)?
    };
    Ok(Caller::new(auth.identify(credential).await?))
}

/// Without tokens, a page that the browser's user happens to visit could call:
/// browsers tell by `Origin` whose page it is.
pub fn refuse_foreign_pages(headers: &HeaderMap) -> Result<()> {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let host = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.parse::<http::Uri>().ok())
        .and_then(|origin| Some(origin.host()?.to_owned()));
    match host.as_deref() {
        Some("localhost" | "127.0.0.1" | "[::1]") => Ok(()),
        _ => Err(Error::new(
            ErrorCode::Forbidden,
            "without tokens, only pages of this machine may call",
        )),
    }
}

/// The one credential of a request. With two of them, a proxy in front and the
/// service could each believe another one.
fn credential(headers: &HeaderMap) -> Result<Option<Credential<'_>>> {
    let authorization = only(headers, &header::AUTHORIZATION)?;
    let key = only(headers, &API_KEY)?;
    match (authorization, key) {
        (Some(_), Some(_)) => Err(unauthorized(
            "a token or an API key is taken, not both at once",
        )),
        (None, Some(key)) => Ok(Some(Credential::ApiKey(key))),
        (Some(text), None) => Ok(bearer(text).map(|token| {
            if ApiKey::is_meant(token) {
                Credential::ApiKey(token)
            } else {
                Credential::Token(token)
            }
        })),
        (None, None) => Ok(None),
    }
}

fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(unauthorized(format!("`{name}` is there more than once")));
    }
    let readable = |value: &'a http::HeaderValue| {
        value
            .to_str()
            .map_err(|_| unauthorized(format!("`{name}` is not plain text")))
    };
    first.map(readable).transpose()
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim())
        .filter(|token| !token.is_empty())
}

fn unauthorized(detail: impl Into<String>) -> Error {
    Error::new(ErrorCode::Unauthorized, detail)
}
