//! The settings of sandboxes on an E2B server.

use std::{error::Error, time::Duration};

use backend_e2b::{AddressError, Door, E2bConfig, Secret, Servers};

use crate::{
    e2b_secret::token_secret,
    serve::usual_spec,
    settings::{E2bDoor, Settings, SettingsError},
};

/// E2B's own bounds of a sandbox's time: shorter makes it fragile, longer is refused.
const LIFE_SECONDS: std::ops::RangeInclusive<u64> = 60..=3600;

pub fn config(settings: &Settings, owner: &str) -> Result<E2bConfig, Box<dyn Error>> {
    let secret = String::from_utf8(token_secret(settings)?)?;
    let servers = servers(settings)?;
    let life = settings
        .idle_timeout
        .clamp(*LIFE_SECONDS.start(), *LIFE_SECONDS.end());
    Ok(E2bConfig {
        template: settings.e2b_template.clone(),
        allow_internet: settings.e2b_allow_internet_access,
        secure: settings.e2b_secure_access,
        door: match settings.e2b_door {
            E2bDoor::Auto => Door::Auto,
            E2bDoor::Port => Door::Port,
            E2bDoor::Command => Door::Command,
            E2bDoor::Envd => Door::Envd,
        },
        limits: usual_spec(settings).limits,
        life: Duration::from_secs(life),
        python_preload: settings
            .python_warm
            .then(|| settings.python_preload.clone()),
        ..E2bConfig::new(
            Secret::new(&settings.e2b_api_key),
            servers,
            owner,
            Secret::new(secret),
            guest_binary::GUEST.into(),
        )
    })
}

/// Of a service that makes its sandboxes there; others may have these variables for the
/// SDKs of E2B.
pub fn check(settings: &Settings) -> Result<(), SettingsError> {
    if settings.backend != "e2b" {
        return Ok(());
    }
    let invalid = |key: &str, problem: String| {
        Err(SettingsError::Invalid {
            key: key.into(),
            problem,
        })
    };
    let key = &settings.e2b_api_key;
    if key.is_empty() {
        return invalid(
            "e2b_api_key",
            "sandboxes of E2B need a key: E2B_API_KEY".into(),
        );
    }
    if !key.bytes().all(|b| b.is_ascii_graphic()) {
        return invalid("e2b_api_key", "it has characters that no key has".into());
    }
    if settings.e2b_template.is_empty() {
        return invalid("e2b_template", "sandboxes are made of a template".into());
    }
    for (key, url) in [
        ("e2b_api_url", &settings.e2b_api_url),
        ("e2b_sandbox_url", &settings.e2b_sandbox_url),
    ] {
        if let Err(problem) = Servers::new("e2b.app", set(url), None) {
            return invalid(key, problem.to_string());
        }
    }
    match servers(settings) {
        Ok(_) => Ok(()),
        Err(problem) => invalid("e2b_domain", problem.to_string()),
    }
}

fn servers(settings: &Settings) -> Result<Servers, AddressError> {
    Servers::new(
        &settings.e2b_domain,
        set(&settings.e2b_api_url),
        set(&settings.e2b_sandbox_url),
    )
}

fn set(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
