//! Who calls: tokens and their signing keys, API keys.
//!
//! A request shows a [`Credential`]; [`Auth`] says whose it is, as an
//! [`Identity`], or refuses it. Which algorithm a token is signed with follows
//! from the key that the operator configured, never from the token.

mod api_key;
mod api_keys;
mod auth;
mod claims;
mod identity;
mod jwk;
mod jwks;
mod jwks_url;
mod tokens;
mod verifying_key;

pub use api_key::ApiKey;
pub use api_keys::ApiKeys;
pub use auth::{Auth, Credential};
pub use identity::Identity;
pub use jwks::{Jwks, JwksTimes};
pub use jwks_url::{FetchError, JwksUrl};
pub use tokens::{TokenRules, Tokens};
pub use verifying_key::{Algorithm, KeyError, VerifyingKey};

use sandbox_core::{Error, ErrorCode};

fn unauthorized(detail: impl Into<String>) -> Error {
    Error::new(ErrorCode::Unauthorized, detail)
}
