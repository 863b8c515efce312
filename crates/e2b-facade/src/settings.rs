//! What the operator decides about the E2B API.

use std::{collections::BTreeMap, time::Duration};

use sandbox_core::Limits;
use sandbox_http::HttpSettings;

use crate::Domain;

/// What a template's sandboxes are made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// `None`: what the operator gives every sandbox.
    pub image: Option<String>,
    pub limits: Limits,
}

#[derive(Clone, Debug)]
pub struct E2bSettings {
    /// Under which the sandboxes' ports have names; `None`: headers alone choose.
    pub domain: Option<Domain>,
    /// By name, beside those that are always there.
    pub templates: BTreeMap<String, Template>,
    /// Longest time that a sandbox may be given at once.
    pub max_timeout: Duration,
    /// Requests to the sandboxes of one tenant that may be under way.
    pub tenant_requests: usize,
    /// WebSockets to ports of the sandboxes of one tenant, and of all, that may be open.
    pub tenant_sockets: usize,
    pub sockets: usize,
    /// Sandboxes that ask for the internet get it, where the backend can.
    pub allow_internet: bool,
    /// Those of the other API: the usual sandbox, languages, limits of runs.
    pub http: HttpSettings,
}

impl E2bSettings {
    pub fn new(http: HttpSettings) -> Self {
        Self {
            domain: None,
            templates: BTreeMap::new(),
            max_timeout: Duration::from_secs(24 * 3600),
            tenant_requests: 256,
            tenant_sockets: 256,
            sockets: 1024,
            allow_internet: false,
            http,
        }
    }

    /// The template of this name; `None` if there is none.
    pub(crate) fn template(&self, name: &str) -> Option<Template> {
        if let Some(template) = self.templates.get(name) {
            return Some(template.clone());
        }
        let usual = &self.http.sessions.spec;
        // The SDKs' defaults, and what an older one sends for them.
        matches!(name, "" | "base" | "code-interpreter-v1").then(|| Template {
            image: usual.image.clone(),
            limits: usual.limits.clone(),
        })
    }
}
