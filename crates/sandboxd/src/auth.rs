//! Who may call, out of the settings.

use std::{fs, net::SocketAddr, sync::Arc};

use sandbox_auth::{
    Algorithm, ApiKeys, Auth, Jwks, JwksTimes, JwksUrl, TokenRules, Tokens, VerifyingKey,
};
use sandbox_store::KeyStore;

use crate::settings::{Settings, SettingsError};

const PEM: &str = "-----BEGIN";
const MAX_LEEWAY_SECONDS: u64 = 3600;

/// What checks the signatures of tokens.
enum Key {
    One(VerifyingKey),
    Url(JwksUrl),
}

/// Finds what stops the start.
pub fn check(settings: &Settings) -> Result<(), SettingsError> {
    let key = key(settings)?;
    let is_open = |address: SocketAddr| !address.ip().is_loopback();
    let open = match settings.e2b_address() {
        Some(address) if is_open(address) => Some("e2b_listen"),
        _ => is_open(settings.listen).then_some("listen"),
    };
    if let Some(open) = open
        && key.is_none()
        && !settings.api_keys
    {
        return Err(invalid(
            open,
            "without jwt_secret, jwt_public_key, jwks_url or api_keys anybody may call, so only a \
             loopback address is served",
        ));
    }
    if settings.jwt_leeway_seconds > MAX_LEEWAY_SECONDS {
        return Err(invalid("jwt_leeway_seconds", "it is at most 3600"));
    }
    Ok(())
}

/// Requires a Tokio runtime.
pub fn auth(settings: &Settings, store: Arc<dyn KeyStore>) -> Result<Auth, SettingsError> {
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    let rules = TokenRules {
        audience: given(&settings.jwt_audience),
        issuer: given(&settings.jwt_issuer),
        leeway_seconds: settings.jwt_leeway_seconds,
    };
    let keys = settings.api_keys.then(|| ApiKeys::new(store));
    let tokens = match key(settings)? {
        Some(Key::One(key)) => Some(Tokens::signed_by(key, rules)),
        Some(Key::Url(url)) => {
            let keys = Jwks::start(url, pinned(settings)?, JwksTimes::default());
            Some(Tokens::signed_by_one_of(keys, rules))
        }
        None => None,
    };
    if tokens.is_none() && keys.is_none() {
        return Ok(Auth::off());
    }
    Ok(Auth::on(tokens, keys))
}

fn key(settings: &Settings) -> Result<Option<Key>, SettingsError> {
    let given: Vec<&str> = [
        ("jwt_secret", &settings.jwt_secret),
        ("jwt_public_key", &settings.jwt_public_key),
        ("jwks_url", &settings.jwks_url),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(name, _)| name)
    .collect();
    let pinned = pinned(settings)?;
    let key = match given.as_slice() {
        [] => {
            if pinned.is_some() {
                return Err(invalid("jwt_algorithm", "there is no key for tokens"));
            }
            return Ok(None);
        }
        [one] => match *one {
            "jwt_secret" => VerifyingKey::from_secret(&settings.jwt_secret)
                .map(Key::One)
                .map_err(|error| invalid(one, &error.to_string()))?,
            "jwt_public_key" => Key::One(public_key(&settings.jwt_public_key)?),
            _ => JwksUrl::parse(&settings.jwks_url)
                .map(Key::Url)
                .map_err(|error| invalid(one, &error.to_string()))?,
        },
        [first, second, ..] => {
            let problem = format!("{first} is set too; only one of them is taken");
            return Err(invalid(second, &problem));
        }
    };
    match (&key, pinned) {
        (Key::One(key), Some(pinned)) if key.algorithm() != pinned => Err(invalid(
            "jwt_algorithm",
            &format!("the key is one for {}", key.algorithm()),
        )),
        (Key::Url(_), Some(Algorithm::Hs256)) => Err(invalid(
            "jwt_algorithm",
            "a set of public keys has none for HS256",
        )),
        _ => Ok(Some(key)),
    }
}

fn public_key(text: &str) -> Result<VerifyingKey, SettingsError> {
    let name = "jwt_public_key";
    let pem = if text.trim_start().starts_with(PEM) {
        text.to_owned()
    } else {
        fs::read_to_string(text)
            .map_err(|error| invalid(name, &format!("failed to read `{text}`: {error}")))?
    };
    VerifyingKey::from_pem(&pem).map_err(|error| invalid(name, &error.to_string()))
}

fn pinned(settings: &Settings) -> Result<Option<Algorithm>, SettingsError> {
    let text = settings.jwt_algorithm.as_str();
    if text.is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|error: sandbox_auth::KeyError| invalid("jwt_algorithm", &error.to_string()))
}

fn invalid(key: &str, problem: &str) -> SettingsError {
    SettingsError::Invalid {
        key: key.into(),
        problem: problem.into(),
    }
}
