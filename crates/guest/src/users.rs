//! Whom the contract's calls may name: the sandbox's only user.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use connectrpc::{
    ConnectError, Interceptor,
    interceptor::{
        Next, NextStream, PayloadStream, StreamRequest, StreamResponse, UnaryRequest, UnaryResponse,
    },
};
use http::{HeaderMap, header};

/// What the public contract calls a sandbox's usual user.
const USUAL: &str = "user";

/// The name that programs see.
static OWN: LazyLock<String> =
    LazyLock::new(|| std::env::var("USER").unwrap_or_else(|_| USUAL.to_owned()));

pub(crate) fn own_name() -> &'static str {
    &OWN
}

pub(crate) fn check(name: &str) -> Result<(), ConnectError> {
    if name == USUAL || name == own_name() {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    Err(ConnectError::unauthenticated(match name {
        "root" => format!(
            "sandboxes here have no root; their only user is `{}`",
            own_name()
        ),
        _ => format!(
            "there is no user `{shown}`; the only one is `{}`",
            own_name()
        ),
    }))
}

/// The user of `Authorization: Basic`, whose password the contract leaves empty.
fn named(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(credentials.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (name, _password) = text.split_once(':')?;
    Some(name.to_owned())
}

/// Refuses calls in the name of a user who is not there.
pub(crate) struct Users;

fn check_headers(headers: &HeaderMap) -> Result<(), ConnectError> {
    named(headers).map_or(Ok(()), |name| check(&name))
}

#[connectrpc::async_trait]
impl Interceptor for Users {
    async fn intercept_unary(
        &self,
        request: UnaryRequest,
        next: Next<'_>,
    ) -> Result<UnaryResponse, ConnectError> {
        check_headers(request.ctx.headers())?;
        next.run(request).await
    }

    async fn intercept_streaming(
        &self,
        request: StreamRequest,
        inbound: PayloadStream,
        next: NextStream<'_>,
    ) -> Result<StreamResponse, ConnectError> {
        check_headers(request.ctx.headers())?;
        next.run(request, inbound).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_by_basic_authorization_alone() {
        for (value, name) in [
            ("Basic dXNlcjo=", Some("user")),
            ("basic cm9vdDo=", Some("root")),
            ("Basic Og==", Some("")),
            ("Basic dXNlcg==", None),
            ("Basic !", None),
            ("Bearer dXNlcjo=", None),
            ("Basic", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            assert_eq!(named(&headers).as_deref(), name, "{value}");
        }
    }
}
