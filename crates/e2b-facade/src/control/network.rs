//! What a sandbox may reach, and who may reach it.

use axum::extract::State;
use e2b_wire::{NetworkConfig, NetworkUpdate};
use http::StatusCode;
use sandbox_core::NetworkPolicy;

use super::{
    extract::{Id, Json},
    own,
};
use crate::{
    caller::Caller,
    error::{Answer, Refusal},
    state::Facade,
};

const EVERYTHING: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// Whether whoever knows the address of a sandbox reaches its ports.
pub(super) fn public_traffic(config: Option<&NetworkConfig>) -> bool {
    config
        .and_then(|config| config.allow_public_traffic)
        .unwrap_or(true)
}

/// Whether it takes the internet away; an error where it is to be parted, which no
/// backend here can do.
pub(super) fn denies_all(config: &NetworkConfig, has_internet: bool) -> Answer<bool> {
    if let Some(field) = parted(config) {
        return Err(Refusal::unsupported(&format!("`network.{field}`")));
    }
    let denied = config.deny_out.as_deref().unwrap_or_default();
    let all = denied
        .iter()
        .any(|denied| EVERYTHING.contains(&denied.as_str()));
    // Without the internet nothing is reached, what is denied among it.
    if denied.is_empty() || all || !has_internet {
        return Ok(all);
    }
    Err(Refusal::unsupported(
        "`network.denyOut` of a part of the internet",
    ))
}

/// A field that asks for more than all or nothing.
fn parted(config: &NetworkConfig) -> Option<&str> {
    let has = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    if has(&config.allow_out) {
        Some("allowOut")
    } else if has(&config.dns_servers) {
        Some("dnsServers")
    } else if config.egress_proxy.is_some() {
        Some("egressProxy")
    } else if config
        .mask_request_host
        .as_ref()
        .is_some_and(|host| !host.is_empty())
    {
        Some("maskRequestHost")
    } else if config
        .https_ports
        .as_ref()
        .is_some_and(|ports| !ports.is_empty())
    {
        Some("httpsPorts")
    } else if config.rules.as_ref().is_some_and(|rules| !rules.is_empty()) {
        Some("rules")
    } else {
        super::refused::asked_for(&config.unknown)
    }
}

/// `PUT /sandboxes/{id}/network`: what a sandbox reaches is decided when it is made.
pub(super) async fn update(
    caller: Caller,
    State(facade): State<Facade>,
    Id(id): Id,
    Json(update): Json<NetworkUpdate>,
) -> Answer<StatusCode> {
    let own = own(&facade, &caller, &id)?;
    let has = own.info.spec.network != NetworkPolicy::Disabled;
    let denied = denies_all(&update.config, has)?;
    // Without a word, E2B's default is the internet.
    let wanted = !denied && update.allow_internet_access.unwrap_or(has);
    let public = update.config.allow_public_traffic;
    if wanted != has || public.is_some_and(|public| public != own.options.public_traffic) {
        return Err(Refusal::unsupported(
            "a change of what a sandbox reaches after it was made",
        ));
    }
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> NetworkConfig {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn all_or_nothing_is_taken_and_a_part_is_refused() {
        for (text, has, denies) in [
            ("{}", true, Some(false)),
            (r#"{"denyOut":["0.0.0.0/0"]}"#, true, Some(true)),
            (r#"{"denyOut":["10.0.0.0/8"]}"#, true, None),
            (r#"{"denyOut":["10.0.0.0/8"]}"#, false, Some(false)),
            (
                r#"{"allowOut":[],"rules":{},"dnsServers":[]}"#,
                true,
                Some(false),
            ),
            (r#"{"allowOut":["1.1.1.1"]}"#, false, None),
            (r#"{"rules":{"a.b":[]}}"#, false, None),
            (r#"{"egressProxy":{"address":"a:1"}}"#, false, None),
            (r#"{"maskRequestHost":"x"}"#, false, None),
            (r#"{"soon":null}"#, false, Some(false)),
            (r#"{"soon":[1]}"#, false, None),
        ] {
            assert_eq!(denies_all(&config(text), has).ok(), denies, "{text}");
        }
    }

    #[test]
    fn ports_are_public_unless_it_is_said() {
        assert!(public_traffic(None));
        assert!(public_traffic(Some(&config("{}"))));
        assert!(!public_traffic(Some(&config(
            r#"{"allowPublicTraffic":false}"#
        ))));
    }
}
