//! Who is calling: a bearer token becomes a [`Caller`], whose tenant is checked.

use axum::extract::FromRequestParts;
use http::{HeaderMap, header, request::Parts};
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation,
    errors::{Error as TokenError, ErrorKind},
};
use sandbox_core::{Error, ErrorCode, Result, SessionId, SessionKey, TenantId};
use serde::Deserialize;

use crate::{AppState, problem::ApiError};

const ADMIN_ROLE: &str = "admin";
const ADMIN_SCOPE: &str = "sandbox:admin";
const ANY_TENANT: &str = "*";
const DEFAULT_TENANT: &str = "default";

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

    fn caller(&self, headers: &HeaderMap) -> Result<Caller> {
        match &self.0 {
            Kind::Off => {
                refuse_foreign_pages(headers)?;
                Ok(Caller {
                    tenants: Tenants::Any {
                        default: Some(DEFAULT_TENANT.parse()?),
                    },
                    admin: true,
                })
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

fn unauthorized(detail: impl Into<String>) -> Error {
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

/// The claims that matter here; `exp`, `nbf`, `aud` and `iss` are checked before.
#[derive(Deserialize)]
struct Claims {
    tenant_id: Option<String>,
    tenants: Option<Vec<String>>,
    role: Option<String>,
    /// Separated by spaces (RFC 8693, section 4.2).
    scope: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tenants {
    Any { default: Option<TenantId> },
    Only(Vec<TenantId>),
}

/// Who calls, with a token that has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    tenants: Tenants,
    admin: bool,
}

impl Caller {
    fn new(claims: Claims) -> Result<Self> {
        let admin = claims.role.as_deref() == Some(ADMIN_ROLE)
            || claims
                .scope
                .is_some_and(|scopes| scopes.split(' ').any(|scope| scope == ADMIN_SCOPE));
        let names: Vec<String> = claims
            .tenant_id
            .into_iter()
            .chain(claims.tenants.into_iter().flatten())
            .collect();
        if names.is_empty() {
            return Err(unauthorized("the token has no `tenant_id`"));
        }
        let any = names.iter().any(|name| name == ANY_TENANT);
        if any && !admin {
            return Err(unauthorized("only an admin's token is for tenant `*`"));
        }
        let mut only = names
            .iter()
            .filter(|name| *name != ANY_TENANT)
            .map(|name| name.parse())
            .collect::<Result<Vec<TenantId>>>()
            .map_err(|_| unauthorized("the token's tenant is not a valid tenant_id"))?;
        only.sort();
        only.dedup();
        let tenants = match (any, only.as_slice()) {
            (true, [one]) => Tenants::Any {
                default: Some(one.clone()),
            },
            (true, _) => Tenants::Any { default: None },
            (false, _) => Tenants::Only(only),
        };
        Ok(Self { tenants, admin })
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.admin
    }

    fn serves(&self, tenant: &TenantId) -> bool {
        match &self.tenants {
            Tenants::Any { .. } => true,
            Tenants::Only(tenants) => tenants.contains(tenant),
        }
    }

    /// The tenant of a request that named this one, or none.
    pub(crate) fn tenant(&self, named: Option<TenantId>) -> Result<TenantId> {
        let tenant = match (named, &self.tenants) {
            (Some(tenant), _) if self.serves(&tenant) => tenant,
            (Some(_), _) => {
                return Err(Error::new(
                    ErrorCode::ForbiddenTenant,
                    "the token is not for this tenant",
                ));
            }
            (None, Tenants::Any { default: Some(one) }) => one.clone(),
            (None, Tenants::Only(tenants)) if tenants.len() == 1 => tenants[0].clone(),
            (None, _) => {
                return Err(Error::new(
                    ErrorCode::InvalidRequest,
                    "`tenant_id` is needed: the token is for several tenants",
                ));
            }
        };
        tracing::Span::current().record("session.tenant", tenant.as_str());
        Ok(tenant)
    }

    /// The tenant of a run, which may have a session or not.
    pub(crate) fn run_as(
        &self,
        tenant: Option<TenantId>,
        session: Option<&SessionId>,
    ) -> Result<TenantId> {
        let tenant = self.tenant(tenant)?;
        if let Some(session) = session {
            tracing::Span::current().record("session.id", session.as_str());
        }
        Ok(tenant)
    }

    /// The session of a request's body.
    pub(crate) fn session(
        &self,
        tenant: Option<TenantId>,
        session: SessionId,
    ) -> Result<SessionKey> {
        let tenant = self.tenant(tenant)?;
        tracing::Span::current().record("session.id", session.as_str());
        Ok(SessionKey::new(tenant, session))
    }

    /// Like [`Caller::session`], for the routes that an admin has for all tenants.
    pub(crate) fn managed(&self, tenant: TenantId, session: SessionId) -> Result<SessionKey> {
        if !self.admin {
            return self.session(Some(tenant), session);
        }
        let span = tracing::Span::current();
        span.record("session.tenant", tenant.as_str());
        span.record("session.id", session.as_str());
        Ok(SessionKey::new(tenant, session))
    }
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &AppState,
    ) -> std::result::Result<Self, ApiError> {
        Ok(state.auth.caller(&parts.headers)?)
    }
}
