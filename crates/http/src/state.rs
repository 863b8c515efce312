//! What every handler may use.

use std::{str::FromStr, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use sandbox_admission::Admission;
use sandbox_audit::Audit;
use sandbox_backend::{Backend, Readiness};
use sandbox_core::{
    ArtifactLimits, Capabilities, ContextLimits, Error, ErrorCode, Limits, SandboxSpec, SessionId,
};
use sandbox_execution::{Artifacts, Executions, Processes};
use sandbox_session::SessionManager;
use sandbox_store::AuditStore;

use crate::{
    Auth, LanguageTable, Metrics,
    health::ReadyCache,
    languages_route::LanguageCache,
    trace::{NotExported, Spans},
};

/// Asks the store whether it answers.
pub type StoreCheck = Arc<dyn Fn() -> BoxFuture<'static, Readiness> + Send + Sync>;

/// What a service is made of.
pub struct AppParts {
    pub sessions: Arc<SessionManager>,
    pub admission: Arc<Admission>,
    pub executions: Executions,
    pub processes: Processes,
    pub artifacts: Artifacts,
    pub audit: Audit,
    pub audit_trail: Arc<dyn AuditStore>,
    /// The first one is the default.
    pub backends: Vec<Arc<dyn Backend>>,
    pub store: StoreCheck,
    pub auth: Auth,
    pub metrics: Arc<Metrics>,
    pub settings: HttpSettings,
    /// Who exports the spans of requests, if somebody does.
    pub spans: Option<Arc<dyn Spans>>,
}

/// A clone is the same state.
#[derive(Clone)]
pub struct AppState {
    pub(crate) sessions: Arc<SessionManager>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) executions: Executions,
    pub(crate) processes: Processes,
    pub(crate) artifacts: Artifacts,
    pub(crate) audit: Audit,
    pub(crate) audit_trail: Arc<dyn AuditStore>,
    pub(crate) backends: Arc<[Arc<dyn Backend>]>,
    pub(crate) store: StoreCheck,
    pub(crate) auth: Arc<Auth>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) settings: Arc<HttpSettings>,
    pub(crate) ready: Arc<ReadyCache>,
    pub(crate) spans: Arc<dyn Spans>,
    pub(crate) languages_found: Arc<LanguageCache>,
}

impl AppState {
    pub fn new(parts: AppParts) -> Self {
        Self {
            sessions: parts.sessions,
            admission: parts.admission,
            executions: parts.executions,
            processes: parts.processes,
            artifacts: parts.artifacts,
            audit: parts.audit,
            audit_trail: parts.audit_trail,
            backends: parts.backends.into(),
            store: parts.store,
            auth: Arc::new(parts.auth),
            metrics: parts.metrics,
            settings: Arc::new(parts.settings),
            ready: Arc::default(),
            spans: parts.spans.unwrap_or_else(|| Arc::new(NotExported)),
            languages_found: Arc::default(),
        }
    }

    /// What the default backend can do.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.backends
            .first()
            .map(|backend| backend.capabilities())
            .unwrap_or_default()
    }

    pub(crate) fn default_backend(&self) -> &'static str {
        self.backends
            .first()
            .map_or("none", |backend| backend.name())
    }
}

/// What a request may be and take.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Names that the service is called by, besides those of the machine itself;
    /// asked for where tokens are not.
    pub hosts: Vec<String>,
    /// Every route is at `/` and under this.
    pub prefix: RoutePrefix,
    /// Of every route; 40 MiB is a file of 30 MiB in base64.
    pub max_body_bytes: usize,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
    pub max_code_bytes: usize,
    /// Of a tar that is copied into a session, unpacked and packed.
    pub max_copy_bytes: u64,
    /// Of a run that names none.
    pub default_timeout: Duration,
    pub max_timeout: Duration,
    /// Kept of stdout, and of stderr.
    pub max_output_bytes: u64,
    /// Kept of either stream in a file of the sandbox; more ends the run. 0: neither.
    pub spill_bytes: u64,
    /// What is kept of the files that a run makes; `None`: they are not looked for.
    pub artifacts: Option<ArtifactLimits>,
    pub languages: LanguageTable,
    /// Of interpreters that stay alive.
    pub contexts: ContextLimits,
    pub sessions: SessionBounds,
    /// How long an answer of /readyz is used again.
    pub ready_cache: Duration,
}

/// What sessions are, and may be asked to be.
#[derive(Clone, Debug)]
pub struct SessionBounds {
    /// Of a session that its first call makes.
    pub spec: SandboxSpec,
    pub max_limits: Limits,
    pub max_idle_timeout: Duration,
    /// `None`: sessions may live for ever.
    pub max_ttl: Option<Duration>,
}

impl Default for SessionBounds {
    fn default() -> Self {
        Self {
            spec: SandboxSpec::default(),
            max_limits: Limits::default(),
            max_idle_timeout: Duration::from_secs(900),
            max_ttl: None,
        }
    }
}

impl HttpSettings {
    pub fn new(languages: LanguageTable) -> Self {
        Self {
            hosts: Vec::new(),
            prefix: RoutePrefix::default(),
            max_body_bytes: 40 << 20,
            body_timeout: Duration::from_secs(60),
            max_code_bytes: 1 << 20,
            max_copy_bytes: 1 << 30,
            default_timeout: Duration::from_secs(30),
            max_timeout: Duration::from_secs(3600),
            max_output_bytes: 1 << 20,
            spill_bytes: 64 << 20,
            artifacts: Some(ArtifactLimits {
                max_files: 64,
                max_file_bytes: 32 << 20,
                max_total_bytes: 128 << 20,
            }),
            languages,
            contexts: ContextLimits::default(),
            sessions: SessionBounds::default(),
            ready_cache: Duration::from_secs(2),
        }
    }

    /// Artifacts live in a session: a run without one has none.
    pub(crate) fn artifacts_of(&self, session: Option<&SessionId>) -> Option<ArtifactLimits> {
        session.and(self.artifacts)
    }
}

/// A path such as `/v1/sandbox`; empty is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePrefix(String);

impl Default for RoutePrefix {
    fn default() -> Self {
        Self("/v1/sandbox".into())
    }
}

impl RoutePrefix {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RoutePrefix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim_end_matches('/');
        let part = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        let good = match text.strip_prefix('/') {
            Some(parts) => parts.split('/').all(part),
            None => text.is_empty(),
        };
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::new(
                ErrorCode::InvalidRequest,
                format!("`{text}` is not a path prefix such as /v1/sandbox"),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_plain_path_or_nothing() {
        for (text, prefix) in [("/v1/sandbox/", "/v1/sandbox"), ("/", ""), ("", "")] {
            assert_eq!(text.parse::<RoutePrefix>().unwrap().as_str(), prefix);
        }
        for bad in ["v1", "/v1//x", "/{id}", "/a b", "/*x"] {
            assert!(bad.parse::<RoutePrefix>().is_err(), "{bad}");
        }
    }
}
