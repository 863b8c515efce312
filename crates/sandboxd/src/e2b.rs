//! The E2B API, served beside the other one.

use std::{
    collections::BTreeMap,
    error::Error,
    io::{self, Write as _},
    net::SocketAddr,
    time::Duration,
};

use axum::Router;
use sandbox_core::{Limits, SandboxSpec};
use sandbox_e2b::{E2bParts, E2bSettings, Secret, Template};
use sandbox_http::{AppState, HttpSettings, tracked};
use tokio::net::TcpListener;

use crate::{
    e2b_secret::token_secret,
    settings::{E2bTemplate, Settings},
};

/// Before its routes in metrics and log.
const API: &str = "e2b ";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What the operator's settings make of the API.
pub fn e2b_settings(settings: &Settings, http: HttpSettings) -> Result<E2bSettings> {
    let domain = &settings.e2b_public_domain;
    let usual = http.sessions.spec.clone();
    Ok(E2bSettings {
        domain: (!domain.is_empty()).then(|| domain.parse()).transpose()?,
        templates: settings
            .e2b_templates
            .iter()
            .map(|(name, asked)| (name.clone(), template(&usual, asked)))
            .collect::<BTreeMap<_, _>>(),
        max_timeout: Duration::from_secs(settings.e2b_max_timeout),
        // The listener's connections are not one tenant's.
        tenant_requests: (settings.max_connections / 4).max(1),
        // They are none of its connections any more, and descriptors all the same.
        tenant_sockets: (settings.max_connections / 4).max(1),
        sockets: settings.max_connections,
        allow_internet: settings.e2b_internet,
        http,
    })
}

fn template(usual: &SandboxSpec, asked: &E2bTemplate) -> Template {
    let limits = usual.limits.clone();
    Template {
        image: asked.image.clone().or_else(|| usual.image.clone()),
        limits: Limits {
            memory: asked.memory.unwrap_or(limits.memory),
            cpus: asked.cpus.unwrap_or(limits.cpus),
            pids: asked.pids.unwrap_or(limits.pids),
            disk: asked.disk.unwrap_or(limits.disk),
            tmp: limits.tmp,
        },
    }
}

/// The secret that the tokens of sandboxes are made from.
pub fn secret(settings: &Settings) -> Result<Secret> {
    Ok(Secret::new(token_secret(settings)?))
}

/// The API with what every request of the service has.
pub fn router(parts: E2bParts, state: AppState) -> Router {
    tracked(sandbox_e2b::router(parts), state, API)
}

/// Listens, and says where.
pub async fn listen(address: SocketAddr, is_tls: bool) -> Result<TcpListener> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| format!("failed to listen on `{address}`: {error}"))?;
    let scheme = if is_tls { "https" } else { "http" };
    let said = format!("e2b on {scheme}://{}\n", listener.local_addr()?);
    // Nobody needs to listen.
    let _ = io::stdout().lock().write_all(said.as_bytes());
    Ok(listener)
}
