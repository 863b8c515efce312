//! `POST /sandboxes` and `POST /v2/sandboxes`.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use e2b_wire::{NewSandbox, Sandbox, headers::IDEMPOTENCY_KEY};
use http::{HeaderMap, StatusCode};
use sandbox_core::{
    Capability, E2bOptions, Error, NetworkPolicy, OnEnd, SandboxSpec, SessionKey, SessionOptions,
};
use sandbox_session::{CreatedBy, NewSession};
use sha2::{Digest as _, Sha256};

use super::{
    CLIENT_ID, ENVD_VERSION, USUAL_TIMEOUT, USUAL_TIMEOUT_V1, extract::Json, network, refused,
    timeout,
};
use crate::{
    caller::Caller,
    error::{Answer, Refusal},
    sandbox::{no_sandbox, random_bits, sandbox_id},
    secret::Purpose,
    state::Facade,
};

/// A sandbox of this API ends by its timeout alone.
const NEVER_IDLE: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
const MAX_ENTRIES: usize = 512;
/// Of all names and values together.
const MAX_TEXT_BYTES: usize = 256 * 1024;

pub(super) async fn v1(
    caller: Caller,
    State(facade): State<Facade>,
    headers: HeaderMap,
    Json(new): Json<NewSandbox>,
) -> Answer {
    create(&facade, &caller, &headers, new, USUAL_TIMEOUT_V1).await
}

pub(super) async fn v2(
    caller: Caller,
    State(facade): State<Facade>,
    headers: HeaderMap,
    Json(new): Json<NewSandbox>,
) -> Answer {
    create(&facade, &caller, &headers, new, USUAL_TIMEOUT).await
}

async fn create(
    facade: &Facade,
    caller: &Caller,
    headers: &HeaderMap,
    new: NewSandbox,
    usual_timeout: Duration,
) -> Answer {
    let (id, request_sha256) = match idempotency_key(headers)? {
        Some(key) => {
            let bits = facade.secret.name(caller.tenant.as_str(), key);
            (sandbox_id(bits), Some(sha256(&new)?))
        }
        None => (sandbox_id(random_bits()?), None),
    };
    let options = E2bOptions {
        template: new.template_id.clone(),
        token_salt: format!("{:032x}", random_bits()?),
        auto_resume: new.auto_resume.is_some_and(|resume| resume.enabled),
        public_traffic: network::public_traffic(new.network.as_ref()),
    };
    let session = NewSession {
        spec: spec(facade, &new)?,
        options: SessionOptions {
            labels: texts("metadata", new.metadata.clone().unwrap_or_default())?,
            run_timeout: None,
            request_sha256,
            on_end: on_end(&new),
            e2b: Some(options),
        },
        idle_timeout: Some(NEVER_IDLE),
        ttl: Some(match new.timeout {
            Some(seconds) => timeout(facade, seconds)?,
            None => usual_timeout.min(facade.settings.max_timeout),
        }),
        files: Vec::new(),
        by: CreatedBy {
            subject: caller.subject.clone(),
            request_id: None,
        },
    };
    refused::check(&new)?;
    let key = SessionKey::new(caller.tenant.clone(), id.parse()?);
    tracing::Span::current().record("session.id", key.session.as_str());
    facade.sessions.create(&key, &session).await?;
    // Not what was asked for but what is there: this may be the second time.
    let (_, options) = facade
        .own(&caller.tenant, &id)
        .ok_or_else(|| no_sandbox(&id))?;
    Ok(made(facade, &id, &options, StatusCode::CREATED))
}

/// A sandbox for those who may use it, with its tokens.
pub(super) fn made(
    facade: &Facade,
    id: &str,
    options: &E2bOptions,
    status: StatusCode,
) -> Response {
    let sandbox = Sandbox {
        template_id: options.template.clone(),
        sandbox_id: id.to_owned(),
        client_id: CLIENT_ID.to_owned(),
        envd_version: ENVD_VERSION.to_owned(),
        alias: None,
        envd_access_token: Some(facade.secret.token(Purpose::Envd, id, &options.token_salt)),
        traffic_access_token: Some(
            facade
                .secret
                .token(Purpose::Traffic, id, &options.token_salt),
        ),
        domain: facade.settings.domain.as_ref().map(ToString::to_string),
    };
    (status, axum::Json(sandbox)).into_response()
}

fn spec(facade: &Facade, new: &NewSandbox) -> Answer<SandboxSpec> {
    let name = &new.template_id;
    let template = facade.settings.template(name).ok_or_else(|| {
        let shown: String = name.chars().take(100).collect();
        Refusal::new(
            StatusCode::NOT_FOUND,
            format!("template '{shown}' not found"),
        )
    })?;
    let usual = &facade.settings.http.sessions.spec;
    let mut env = usual.env.clone();
    env.extend(environment(
        "envVars",
        new.env_vars.clone().unwrap_or_default(),
    )?);
    Ok(SandboxSpec {
        image: template.image,
        env,
        network: policy(facade, new)?,
        limits: template.limits,
    })
}

/// The SDKs ask for the internet unless they are told otherwise, so that where there is
/// none a sandbox is made without, and its detail says so.
fn policy(facade: &Facade, new: &NewSandbox) -> Answer<NetworkPolicy> {
    let may = facade.settings.allow_internet && facade.capabilities.contains(&Capability::Network);
    let wanted = new.allow_internet_access.unwrap_or(true);
    let denied = match &new.network {
        Some(config) => network::denies_all(config, wanted && may)?,
        None => false,
    };
    Ok(if may && wanted && !denied {
        NetworkPolicy::AllowAll
    } else {
        NetworkPolicy::Disabled
    })
}

fn on_end(new: &NewSandbox) -> OnEnd {
    match (new.auto_pause, new.auto_pause_memory) {
        (Some(true), Some(false)) => OnEnd::PauseFiles,
        (Some(true), _) => OnEnd::Pause,
        _ => OnEnd::Delete,
    }
}

/// Variables of a program's environment, checked.
pub(crate) fn environment(
    field: &str,
    env: BTreeMap<String, String>,
) -> Answer<BTreeMap<String, String>> {
    for name in env.keys() {
        let good = !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !good {
            return Err(Refusal::bad(format!(
                "`{field}` has a name that is not [A-Za-z_][A-Za-z0-9_]*"
            )));
        }
    }
    texts(field, env)
}

fn texts(field: &str, entries: BTreeMap<String, String>) -> Answer<BTreeMap<String, String>> {
    let bytes: usize = entries
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if entries.len() > MAX_ENTRIES || bytes > MAX_TEXT_BYTES {
        return Err(Refusal::bad(format!(
            "`{field}` has more than {MAX_ENTRIES} entries or {MAX_TEXT_BYTES} bytes"
        )));
    }
    let has_nul = |(name, value): (&String, &String)| name.contains('\0') || value.contains('\0');
    if entries.iter().any(has_nul) {
        return Err(Refusal::bad(format!("`{field}` has a NUL character")));
    }
    Ok(entries)
}

fn idempotency_key(headers: &HeaderMap) -> Answer<Option<&str>> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else {
        return Ok(None);
    };
    value
        .to_str()
        .ok()
        .filter(|key| (1..=255).contains(&key.len()))
        .map(Some)
        .ok_or_else(|| Refusal::bad("`Idempotency-Key` is not 1 to 255 plain characters"))
}

fn sha256(new: &NewSandbox) -> Answer<String> {
    let text = serde_json::to_vec(new).map_err(Error::internal)?;
    let digest = Sha256::digest(text);
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}
