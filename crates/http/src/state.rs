//! What every handler may use.

use std::{str::FromStr, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use sandbox_backend::{Backend, Readiness};
use sandbox_core::{Error, ErrorCode};
use sandbox_session::SessionManager;

use crate::{Auth, LanguageTable, Metrics, health::ReadyCache};

/// Asks the store whether it answers.
pub type StoreCheck = Arc<dyn Fn() -> BoxFuture<'static, Readiness> + Send + Sync>;

/// A clone is the same state.
#[derive(Clone)]
pub struct AppState {
    pub(crate) sessions: Arc<SessionManager>,
    pub(crate) backends: Arc<[Arc<dyn Backend>]>,
    pub(crate) store: StoreCheck,
    pub(crate) auth: Arc<Auth>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) settings: Arc<HttpSettings>,
    pub(crate) ready: Arc<ReadyCache>,
}

impl AppState {
    /// The first of `backends` is the default one.
    pub fn new(
        sessions: Arc<SessionManager>,
        backends: Vec<Arc<dyn Backend>>,
        store: StoreCheck,
        auth: Auth,
        metrics: Arc<Metrics>,
        settings: HttpSettings,
    ) -> Self {
        Self {
            sessions,
            backends: backends.into(),
            store,
            auth: Arc::new(auth),
            metrics,
            settings: Arc::new(settings),
            ready: Arc::default(),
        }
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
    /// Every route is at `/` and under this.
    pub prefix: RoutePrefix,
    /// Of every route; 40 MiB is a file of 30 MiB in base64.
    pub max_body_bytes: usize,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
    pub max_code_bytes: usize,
    /// Of a run that names none.
    pub default_timeout: Duration,
    pub max_timeout: Duration,
    /// Kept of stdout, and of stderr.
    pub max_output_bytes: u64,
    pub languages: LanguageTable,
    /// How long an answer of /readyz is used again.
    pub ready_cache: Duration,
}

impl HttpSettings {
    pub fn new(languages: LanguageTable) -> Self {
        Self {
            prefix: RoutePrefix::default(),
            max_body_bytes: 40 << 20,
            body_timeout: Duration::from_secs(60),
            max_code_bytes: 1 << 20,
            default_timeout: Duration::from_secs(30),
            max_timeout: Duration::from_secs(3600),
            max_output_bytes: 1 << 20,
            languages,
            ready_cache: Duration::from_secs(2),
        }
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
