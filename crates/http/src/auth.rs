//! Tokens: what they must be for a request to have a caller.

use http::{HeaderMap, header};
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation,
    errors::{Error as TokenError, ErrorKind},
};
use sandbox_core::{Error, ErrorCode, Result};

use crate::caller::Caller;

/// What a token must be signed with, and for whom it must be made.
pub struct Hs256 {
    pub secret: String,
    /// Not checked when absent; the same for the issuer.
    pub audience: Option<String>,
    pub issuer: Option<String>,
    /// How far the clocks may differ.
    pub leeway_seconds: u64,
}

/// Who may call.
pub struct Auth(Kind);

enum Kind {
    Off,
    Token(Box<TokenRules>),
}

struct TokenRules {
    key: DecodingKey,
    validation: Validation,
}

impl Auth {
    /// Everybody is admin: only for a service that listens on loopback.
    pub fn off() -> Self {
        Self(Kind::Off)
    }

    /// Tokens signed by HS256; what a token says of its algorithm is not believed.
    pub fn hs256(settings: &Hs256) -> Result<Self> {
        if settings.secret.is_empty() {
            return Err(Error::new(
                ErrorCode::InvalidRequest,
                "the secret of the tokens is empty",
            ));
        }
        let mut validation = Validation::new(Algorithm::HS256);
        validation.leeway = settings.leeway_seconds;
        // Not on by default: a token is not good before its time either.
        validation.validate_nbf = true;
        let mut required = vec!["exp", "sub"];
        validation.validate_aud = settings.audience.is_some();
        if let Some(audience) = &settings.audience {
            validation.set_audience(&[audience]);
            required.push("aud");
        }
        if let Some(issuer) = &settings.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        validation.set_required_spec_claims(&required);
        Ok(Self(Kind::Token(Box::new(TokenRules {
            key: DecodingKey::from_secret(settings.secret.as_bytes()),
            validation,
        }))))
    }

    pub(crate) fn caller(&self, headers: &HeaderMap) -> Result<Caller> {
        match &self.0 {
            Kind::Off => {
                refuse_foreign_pages(headers)?;
                Caller::anybody()
            }
            Kind::Token(rules) => {
                let token =
                    bearer(headers).ok_or_else(|| unauthorized("a bearer token is needed"))?;
                let claims = jsonwebtoken::decode(token, &rules.key, &rules.validation)
                    .map_err(refused)?
                    .claims;
                Caller::new(claims)
            }
        }
    }
}

/// Without tokens, a page that the browser's user happens to visit could call:
/// browsers tell by `Origin` whose page it is.
fn refuse_foreign_pages(headers: &HeaderMap) -> Result<()> {
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

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim())
        .filter(|token| !token.is_empty())
}

pub(crate) fn unauthorized(detail: impl Into<String>) -> Error {
    Error::new(ErrorCode::Unauthorized, detail)
}

fn refused(error: TokenError) -> Error {
    let detail = match error.kind() {
        ErrorKind::ExpiredSignature => "the token has expired",
        ErrorKind::ImmatureSignature => "the token is not valid yet",
        ErrorKind::InvalidSignature => "the token's signature is wrong",
        ErrorKind::InvalidAudience => "the token is for another audience",
        ErrorKind::InvalidIssuer => "the token is of another issuer",
        ErrorKind::MissingRequiredClaim(claim) => {
            return unauthorized(format!("the token has no valid `{claim}`"));
        }
        ErrorKind::InvalidAlgorithm => "the token's algorithm is not the one in use",
        _ => "the token is not valid",
    };
    unauthorized(detail)
}
