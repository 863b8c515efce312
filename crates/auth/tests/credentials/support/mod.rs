//! Keys, tokens and a server of keys.

mod keys;
mod server;

use sandbox_auth::{Auth, Credential};
use sandbox_core::{Error, ErrorCode};

pub use keys::{Pair, claims, ec, ed, encode_raw, openssl, other_ed, rsa, sign, sign_with};
pub use server::{Answer, KeyServer, times};

/// The subject of a token that is taken, or the code and detail of the refusal.
pub async fn subject(auth: &Auth, token: &str) -> Result<String, (ErrorCode, String)> {
    auth.identify(Some(Credential::Token(token)))
        .await
        .map(|identity| identity.subject().to_owned())
        .map_err(told)
}

pub fn told(error: Error) -> (ErrorCode, String) {
    (error.code(), error.detail().to_owned())
}

pub fn refused<T>(detail: &str) -> Result<T, (ErrorCode, String)> {
    Err((ErrorCode::Unauthorized, detail.to_owned()))
}
