//! Who a checked credential belongs to, and for which tenants it is.

use sandbox_core::{Error, ErrorCode, Result, TenantId};

use crate::unauthorized;

const DEFAULT_TENANT: &str = "default";
const ANY_TENANT: &str = "*";
const ANONYMOUS: &str = "anonymous";
/// Of the subject of an API key; no token may claim to be one.
const KEY_SUBJECT: &str = "key:";
const MAX_SUBJECT_BYTES: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tenants {
    Any { default: Option<TenantId> },
    Only(Vec<TenantId>),
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    subject: String,
    tenants: Tenants,
    admin: bool,
}

impl Identity {
    /// Who calls where nothing is asked for.
    pub(crate) fn anybody() -> Result<Self> {
        Ok(Self {
            subject: ANONYMOUS.to_owned(),
            tenants: Tenants::Any {
                default: Some(DEFAULT_TENANT.parse()?),
            },
            admin: true,
        })
    }

    pub(crate) fn of_key(id: &str, tenant: TenantId, admin: bool) -> Self {
        Self {
            subject: format!("{KEY_SUBJECT}{id}"),
            tenants: Tenants::Only(vec![tenant]),
            admin,
        }
    }

    /// Of a token whose signature was checked.
    pub(crate) fn of_token(subject: String, tenants: &[String], admin: bool) -> Result<Self> {
        check_subject(&subject)?;
        if tenants.is_empty() {
            return Err(unauthorized("the token has no `tenant_id`"));
        }
        let any = tenants.iter().any(|name| name == ANY_TENANT);
        if any && !admin {
            return Err(unauthorized("only an admin's token is for tenant `*`"));
        }
        let mut only = tenants
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
            subject,
            tenants,
            admin,
        })
    }

    /// Who it is, for the audit trail: `sub` of the token, `key:` and the id
    /// of the API key, or `anonymous`. Short, and without control characters.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    pub fn is_admin(&self) -> bool {
        self.admin
    }

    /// Whether it may work as this tenant.
    pub fn serves(&self, tenant: &TenantId) -> bool {
        match &self.tenants {
            Tenants::Any { .. } => true,
            Tenants::Only(tenants) => tenants.contains(tenant),
        }
    }

    /// The tenant, where it is for one alone.
    pub fn only_tenant(&self) -> Option<&TenantId> {
        match &self.tenants {
            Tenants::Only(tenants) => match tenants.as_slice() {
                [one] => Some(one),
                _ => None,
            },
            Tenants::Any { .. } => None,
        }
    }

    /// The tenant of a request that named this one, or none.
    pub fn tenant(&self, named: Option<TenantId>) -> Result<TenantId> {
        match (named, &self.tenants) {
            (Some(tenant), _) if self.serves(&tenant) => Ok(tenant),
            (Some(_), _) => Err(Error::new(
                ErrorCode::ForbiddenTenant,
                "the caller is not of this tenant",
            )),
            (None, Tenants::Any { default: Some(one) }) => Ok(one.clone()),
            (None, Tenants::Only(tenants)) if tenants.len() == 1 => Ok(tenants[0].clone()),
            (None, _) => Err(Error::new(
                ErrorCode::InvalidRequest,
                "`tenant_id` is needed: the token is for several tenants",
            )),
        }
    }
}

/// What would make a line of the audit trail say something else than it is.
fn check_subject(subject: &str) -> Result<()> {
    if subject.is_empty()
        || subject.len() > MAX_SUBJECT_BYTES
        || subject.chars().any(char::is_control)
    {
        return Err(unauthorized("the token has no valid `sub`"));
    }
    if subject == ANONYMOUS || subject.starts_with(KEY_SUBJECT) {
        return Err(unauthorized(
            "the token's `sub` is a name that the service gives to others",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_token(subject: &str) -> Result<Identity> {
        Identity::of_token(subject.into(), &["acme".into()], false)
    }

    #[test]
    fn a_subject_cannot_forge_a_line_or_another_caller() {
        let longest = "x".repeat(256);
        for good in ["auth0|1", "Zoë", "service:ci", longest.as_str()] {
            assert_eq!(of_token(good).unwrap().subject(), good);
        }
        let long = "x".repeat(257);
        for bad in [
            "",
            "a\nb",
            "a\0",
            "\u{1b}[2J",
            "\u{85}",
            "key:1",
            "anonymous",
            &long,
        ] {
            let error = of_token(bad).unwrap_err();
            assert_eq!(error.code(), ErrorCode::Unauthorized, "{bad:?}");
        }
    }

    #[test]
    fn the_subject_of_a_key_is_its_id() {
        let key = Identity::of_key("0a1b", "acme".parse().unwrap(), false);
        assert_eq!(key.subject(), "key:0a1b");
        assert_eq!(Identity::anybody().unwrap().subject(), "anonymous");
    }
}
