//! Who calls, and for which tenants: handlers ask here, and only here.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use sandbox_admission::Admission;
use sandbox_auth::Identity;
use sandbox_core::{Result, SessionId, SessionKey, TenantId};

use crate::{AppState, auth, problem::ApiError, rate::RequestRate, request_id::RequestId};

/// Who calls, with a credential that has been checked.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    identity: Identity,
    request_id: Option<String>,
    requests: RequestRate,
}

impl Caller {
    pub(crate) fn new(identity: Identity) -> Self {
        Self {
            identity,
            request_id: None,
            requests: RequestRate::default(),
        }
    }

    /// From now on the request counts against the rate of its tenant: at once
    /// where the token is for one alone, so that its body is not read in vain, else
    /// where it names one.
    pub(crate) fn limited(mut self, admission: &Arc<Admission>) -> Result<Self> {
        self.requests = RequestRate::of(admission);
        if let Some(tenant) = self.identity.only_tenant() {
            self.requests.count(tenant)?;
        }
        Ok(self)
    }

    /// The name of its request, for the audit trail.
    pub(crate) fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// Whether it may know of what this tenant has.
    pub(crate) fn sees(&self, tenant: &TenantId) -> bool {
        self.is_admin() || self.identity.serves(tenant)
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.identity.is_admin()
    }

    /// Who it is, for the audit trail.
    pub(crate) fn subject(&self) -> &str {
        self.identity.subject()
    }

    /// The tenant of a request that named this one, or none.
    pub(crate) fn tenant(&self, named: Option<TenantId>) -> Result<TenantId> {
        let tenant = self.identity.tenant(named)?;
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
        if !self.is_admin() {
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
        let mut caller = auth::caller(&state.auth, &parts.headers, &state.settings.hosts).await?;
        tracing::Span::current().record("caller.subject", caller.subject());
        caller.request_id = parts
            .extensions
            .get::<RequestId>()
            .map(|id| id.as_str().to_owned());
        Ok(caller.limited(&state.admission)?)
    }
}
