//! The tokens of sandboxes, made from a secret of the service.

use std::{fmt, sync::Arc};

use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

/// What only the service knows; who has it has every sandbox.
#[derive(Clone)]
pub struct Secret(Arc<[u8]>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What a token opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Commands and files.
    Envd,
    /// The other ports.
    Traffic,
    /// None: the name of a sandbox that is asked for twice by the same request.
    Name,
}

impl Secret {
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self(bytes.into())
    }

    fn mac(&self, purpose: Purpose, parts: &[&str]) -> [u8; 32] {
        // A key of any length is taken, so this cannot fail; no token is better than none's.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            return [0; 32];
        };
        mac.update(match purpose {
            Purpose::Envd => b"sandboxd e2b envd",
            Purpose::Traffic => b"sandboxd e2b traffic",
            Purpose::Name => b"sandboxd e2b name",
        });
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }

    /// Of the sandbox of this name that was made with this salt.
    pub(crate) fn token(&self, purpose: Purpose, sandbox: &str, salt: &str) -> String {
        let mac = self.mac(purpose, &[sandbox, salt]);
        mac.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether this is the token; takes as long for every wrong one.
    pub(crate) fn is_token(
        &self,
        purpose: Purpose,
        sandbox: &str,
        salt: &str,
        given: &[u8],
    ) -> bool {
        let token = self.token(purpose, sandbox, salt);
        token.as_bytes().ct_eq(given).into()
    }

    /// Bits for the name of what this tenant asks for under this key.
    pub(crate) fn name(&self, tenant: &str, key: &str) -> u128 {
        let mac = self.mac(Purpose::Name, &[tenant, key]);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&mac[..16]);
        u128::from_be_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_one_purpose_of_one_sandbox_and_one_service() {
        let secret = Secret::new([7; 32]);
        let token = secret.token(Purpose::Envd, "ia", "1");
        assert_eq!(token.len(), 64);
        assert!(secret.is_token(Purpose::Envd, "ia", "1", token.as_bytes()));
        assert_eq!(token, Secret::new([7; 32]).token(Purpose::Envd, "ia", "1"));
        for wrong in [
            secret.token(Purpose::Traffic, "ia", "1"),
            secret.token(Purpose::Envd, "ib", "1"),
            secret.token(Purpose::Envd, "ia", "2"),
            Secret::new([8; 32]).token(Purpose::Envd, "ia", "1"),
            String::new(),
            token[..63].to_owned(),
            format!("{token}0"),
            token.to_uppercase(),
        ] {
            assert!(
                !secret.is_token(Purpose::Envd, "ia", "1", wrong.as_bytes()),
                "{wrong}"
            );
        }
    }

    #[test]
    fn names_of_two_tenants_never_meet() {
        let secret = Secret::new([7; 32]);
        assert_ne!(secret.name("a", "bc"), secret.name("ab", "c"));
        assert_eq!(secret.name("a", "b"), secret.name("a", "b"));
    }
}
