//! Which credentials are taken, and whose they are.

use std::sync::Arc;

use sandbox_core::{Error, Result};

use crate::{ApiKeys, Identity, Tokens, unauthorized};

/// What a request shows to say who calls. Not `Debug`: it is a secret.
pub enum Credential<'a> {
    Token(&'a str),
    ApiKey(&'a str),
}

/// Who may call. A clone is the same.
#[derive(Clone)]
pub struct Auth(Option<Arc<Taken>>);

struct Taken {
    tokens: Option<Tokens>,
    keys: Option<ApiKeys>,
}

impl Auth {
    /// Everybody is admin: only for a service that listens on loopback.
    pub fn off() -> Self {
        Self(None)
    }

    /// Only who shows what is given here may call; with neither, nobody.
    pub fn on(tokens: Option<Tokens>, keys: Option<ApiKeys>) -> Self {
        Self(Some(Arc::new(Taken { tokens, keys })))
    }

    pub fn is_off(&self) -> bool {
        self.0.is_none()
    }

    /// Whose credential this is.
    pub async fn identify(&self, credential: Option<Credential<'_>>) -> Result<Identity> {
        let Some(Taken { tokens, keys }) = self.0.as_deref() else {
            return Identity::anybody();
        };
        match (credential, tokens, keys) {
            (Some(Credential::Token(token)), Some(tokens), _) => tokens.identify(token).await,
            (Some(Credential::ApiKey(key)), _, Some(keys)) => keys.identify(key).await,
            (Some(Credential::Token(_)), None, _) => Err(unauthorized(
                "tokens are not taken here, an API key is needed",
            )),
            (Some(Credential::ApiKey(_)), _, None) => Err(unauthorized(
                "API keys are not taken here, a bearer token is needed",
            )),
            (None, tokens, keys) => Err(missing(tokens.is_some(), keys.is_some())),
        }
    }
}

fn missing(tokens: bool, keys: bool) -> Error {
    unauthorized(match (tokens, keys) {
        (true, true) => "a bearer token or an API key is needed",
        (false, true) => "an API key is needed",
        (_, false) => "a bearer token is needed",
    })
}
