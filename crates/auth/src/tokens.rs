//! What a token must be for its claims to be believed.

use jsonwebtoken::{
    Header, Validation,
    errors::{Error as TokenError, ErrorKind},
};
use sandbox_core::{Error, Result};

use crate::{Algorithm, Identity, Jwks, VerifyingKey, claims::Claims, unauthorized};

/// Far more than any issuer needs, and little to look through.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// For whom a token must be made.
#[derive(Clone, Debug, Default)]
pub struct TokenRules {
    /// Not checked when absent; the same for the issuer.
    pub audience: Option<String>,
    pub issuer: Option<String>,
    /// How far the clocks may differ.
    pub leeway_seconds: u64,
}

/// Checks tokens, by one key or by a set of keys that is fetched.
pub struct Tokens {
    keys: Keys,
    rules: TokenRules,
}

enum Keys {
    One(VerifyingKey),
    Set(Jwks),
}

impl Tokens {
    pub fn signed_by(key: VerifyingKey, rules: TokenRules) -> Self {
        Self {
            keys: Keys::One(key),
            rules,
        }
    }

    pub fn signed_by_one_of(keys: Jwks, rules: TokenRules) -> Self {
        Self {
            keys: Keys::Set(keys),
            rules,
        }
    }

    pub(crate) async fn identify(&self, token: &str) -> Result<Identity> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(unauthorized("the token is too long"));
        }
        let header = jsonwebtoken::decode_header(token).map_err(refused)?;
        // RFC 7515, section 4.1.11: what it names must be understood, and nothing is.
        if header.crit.is_some() {
            return Err(unauthorized("the token's `crit` header is not understood"));
        }
        match &self.keys {
            Keys::One(key) => self.check(token, &header, key),
            Keys::Set(keys) => {
                let key = keys.find(header.kid.as_deref()).await?;
                self.check(token, &header, &key)
            }
        }
    }

    fn check(&self, token: &str, header: &Header, key: &VerifyingKey) -> Result<Identity> {
        if header.alg != key.algorithm().of_tokens() {
            return Err(refused(ErrorKind::InvalidAlgorithm.into()));
        }
        let validation = self.rules.validation(key.algorithm());
        jsonwebtoken::decode::<Claims>(token, key.key(), &validation)
            .map_err(refused)?
            .claims
            .identity()
    }
}

impl TokenRules {
    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm.of_tokens());
        validation.leeway = self.leeway_seconds;
        // Not on by default: a token is not good before its time either.
        validation.validate_nbf = true;
        let mut required = vec!["exp", "sub"];
        validation.validate_aud = self.audience.is_some();
        if let Some(audience) = &self.audience {
            validation.set_audience(&[audience]);
            required.push("aud");
        }
        if let Some(issuer) = &self.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        validation.set_required_spec_claims(&required);
        validation
    }
}

/// Says what is wrong with a token without a word of the token.
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
