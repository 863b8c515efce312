//! Who calls, and for which tenants: handlers ask here, and only here.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use sandbox_admission::Admission;
use sandbox_core::{Error, ErrorCode, Result, SessionId, SessionKey, TenantId};
use serde::Deserialize;

use crate::{
    AppState, auth::unauthorized, problem::ApiError, rate::RequestRate, request_id::RequestId,
};

const ADMIN_ROLE: &str = "admin";
const ADMIN_SCOPE: &str = "sandbox:admin";
const ANY_TENANT: &str = "*";
const DEFAULT_TENANT: &str = "default";

/// The claims that matter here; `exp`, `nbf`, `aud` and `iss` are checked before.
#[derive(Deserialize)]
pub(crate) struct Claims {
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
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    tenants: Tenants,
    admin: bool,
    subject: String,
    request_id: Option<String>,
    requests: RequestRate,
}

impl Caller {
    /// Who it is, for the audit trail.
    pub(crate) fn subject(&self) -> &str {
        &self.subject
    }

    pub(crate) fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// Whether it may know of what this tenant has.
    pub(crate) fn sees(&self, tenant: &TenantId) -> bool {
        self.admin || self.serves(tenant)
    }

    /// Who calls where there are no tokens.
    pub(crate) fn anybody() -> Result<Self> {
        Ok(Self {
            tenants: Tenants::Any {
                default: Some(DEFAULT_TENANT.parse()?),
            },
            admin: true,
            subject: "anonymous".into(),
            request_id: None,
            requests: RequestRate::default(),
        })
    }

    pub(crate) fn new(claims: Claims) -> Result<Self> {
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
        Ok(Self {
            tenants,
            admin,
            subject: "token".into(),
            request_id: None,
            requests: RequestRate::default(),
        })
    }

    /// From now on the request counts against the rate of its tenant: at once
    /// where the token is for one alone, so that its body is not read in vain, else
    /// where it names one.
    pub(crate) fn limited(mut self, admission: &Arc<Admission>) -> Result<Self> {
        self.requests = RequestRate::of(admission);
        if let Tenants::Only(tenants) = &self.tenants
            && let [one] = tenants.as_slice()
        {
            self.requests.count(one)?;
        }
        Ok(self)
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
        self.requests.count(&tenant)?;
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
        let mut caller = state.auth.caller(&parts.headers)?;
        caller.request_id = parts
            .extensions
            .get::<RequestId>()
            .map(|id| id.as_str().to_owned());
        Ok(caller.limited(&state.admission)?)
    }
}
