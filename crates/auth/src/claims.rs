//! The claims of a token that matter here.

use sandbox_core::Result;
use serde::Deserialize;

use crate::Identity;

const ADMIN_ROLE: &str = "admin";
const ADMIN_SCOPE: &str = "sandbox:admin";

/// `exp`, `nbf`, `aud` and `iss` are checked before these are looked at.
#[derive(Deserialize)]
pub(crate) struct Claims {
    /// That it is there is checked before as well.
    sub: Option<String>,
    tenant_id: Option<String>,
    tenants: Option<Vec<String>>,
    role: Option<String>,
    scope: Option<Scopes>,
    scopes: Option<Scopes>,
    scp: Option<Scopes>,
}

/// Issuers write scopes in either way.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scopes {
    /// Separated by spaces (RFC 8693, section 4.2).
    Text(String),
    List(Vec<String>),
}

impl Scopes {
    fn has(&self, wanted: &str) -> bool {
        match self {
            Self::Text(text) => text.split(' ').any(|scope| scope == wanted),
            Self::List(list) => list.iter().any(|scope| scope == wanted),
        }
    }
}

impl Claims {
    pub(crate) fn identity(self) -> Result<Identity> {
        let scoped = [&self.scope, &self.scopes, &self.scp]
            .into_iter()
            .flatten()
            .any(|scopes| scopes.has(ADMIN_SCOPE));
        let admin = scoped || self.role.as_deref() == Some(ADMIN_ROLE);
        let tenants: Vec<String> = self
            .tenant_id
            .into_iter()
            .chain(self.tenants.into_iter().flatten())
            .collect();
        Identity::of_token(self.sub.unwrap_or_default(), &tenants, admin)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn admin(more: Value) -> bool {
        let mut claims = json!({"sub": "u", "tenant_id": "acme"});
        for (name, value) in more.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let claims: Claims = serde_json::from_value(claims).unwrap();
        claims.identity().unwrap().is_admin()
    }

    #[test]
    fn an_admin_has_the_role_or_the_scope_in_any_of_its_spellings() {
        for good in [
            json!({"role": "admin"}),
            json!({"scope": "read sandbox:admin"}),
            json!({"scopes": ["read", "sandbox:admin"]}),
            json!({"scp": ["sandbox:admin"]}),
            json!({"scp": "sandbox:admin"}),
        ] {
            assert!(admin(good.clone()), "{good}");
        }
        for other in [
            json!({}),
            json!({"role": "Admin"}),
            json!({"role": "admin "}),
            json!({"scope": "sandbox:administrator xsandbox:admin"}),
            json!({"scopes": ["read sandbox:admin"]}),
            json!({"scope": null}),
        ] {
            assert!(!admin(other.clone()), "{other}");
        }
    }
}
