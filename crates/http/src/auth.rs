//! What a request shows to say who calls, in its headers.

use http::{HeaderMap, HeaderName, header};
use sandbox_auth::{ApiKey, Auth, Credential};
use sandbox_core::{Error, ErrorCode, Result};

use crate::{
    caller::Caller,
    pages::{refuse_foreign_hosts, refuse_foreign_pages},
};

pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Where no tokens are asked for, those who speak to one of `hosts` may call, too.
pub(crate) async fn caller(auth: &Auth, headers: &HeaderMap, hosts: &[String]) -> Result<Caller> {
    let credential = if auth.is_off() {
        refuse_foreign_pages(headers)?;
        refuse_foreign_hosts(headers, hosts)?;
        None
    } else {
        credential(headers)?
    };
    Ok(Caller::new(auth.identify(credential).await?))
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
