//! Who calls the control plane: the holder of an API key, for one tenant.

use axum::extract::FromRequestParts;
use e2b_wire::headers::API_KEY;
use http::{HeaderMap, StatusCode, request::Parts};
use sandbox_auth::{ApiKey, Credential};
use sandbox_core::{ErrorCode, TenantId};

use crate::{
    error::{Answer, Refusal},
    state::Facade,
};

/// A caller whose key has been checked, within its tenant's rate.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub tenant: TenantId,
    /// For the audit trail.
    pub subject: String,
}

impl FromRequestParts<Facade> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, facade: &Facade) -> Answer<Self> {
        let caller = identify(facade, &parts.headers).await?;
        facade.admission.request(&caller.tenant)?;
        Ok(caller)
    }
}

async fn identify(facade: &Facade, headers: &HeaderMap) -> Answer<Caller> {
    let credential = if facade.auth.is_off() {
        None
    } else {
        Some(credential(headers)?)
    };
    let identity = match facade.auth.identify(credential).await {
        Ok(identity) => identity,
        Err(error) if error.code() == ErrorCode::Unauthorized => {
            return Err(unauthorized(error.detail()));
        }
        Err(error) => return Err(error.into()),
    };
    let tenant = identity.tenant(None).map_err(|error| match error.code() {
        ErrorCode::InvalidRequest => {
            unauthorized("the credential is for several tenants, and this API takes one alone")
        }
        _ => error.into(),
    })?;
    tracing::Span::current().record("session.tenant", tenant.as_str());
    tracing::Span::current().record("caller.subject", identity.subject());
    Ok(Caller {
        tenant,
        subject: identity.subject().to_owned(),
    })
}

/// The key, or a token where it is sent in its place: the SDKs send what they are given.
fn credential(headers: &HeaderMap) -> Answer<Credential<'_>> {
    let mut keys = headers.get_all(API_KEY).iter();
    let key = keys
        .next()
        .ok_or_else(|| unauthorized("an API key is needed in the header X-API-KEY"))?;
    if keys.next().is_some() {
        return Err(unauthorized("X-API-KEY is there more than once"));
    }
    let key = key
        .to_str()
        .map_err(|_| unauthorized("X-API-KEY is not plain text"))?;
    Ok(if ApiKey::is_meant(key) {
        Credential::ApiKey(key)
    } else {
        Credential::Token(key)
    })
}

fn unauthorized(message: &str) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, message)
}
