//! The HTTP contract: routes, callers, errors, metrics.
//!
//! A handler extracts, converts, makes one call and converts back. What a
//! request may be is said by the DTO beside its handler, from which the
//! OpenAPI document is made too.

mod artifacts;
mod audit;
mod auth;
mod backends;
mod bash;
mod caller;
mod contract;
mod docs;
mod execute;
mod executions;
mod extract;
mod files;
mod health;
mod input;
mod languages;
mod languages_route;
mod linger;
mod metrics;
mod pages;
mod problem;
mod processes;
mod rate;
mod request;
mod request_id;
mod router;
mod run;
mod search;
mod serve;
mod sessions;
mod sse;
mod state;
mod time;
mod trace;

pub use audit::SessionWatch;
pub use languages::{Language, LanguageError, LanguageTable};
pub use metrics::{Declared, E2bTraffic, Metrics, TrafficCount};
pub use pages::{is_of_no_domain, refuse_foreign_pages};
pub use problem::{log as log_error, status};
pub use request::RouteLabel;
pub use router::{openapi, router, tracked};
pub use sandbox_auth::Auth;
pub use serve::{ServeLimits, Tls, TlsError, serve, serve_over};
pub use state::{AppParts, AppState, HttpSettings, RoutePrefix, SessionBounds, StoreCheck};
pub use trace::{Spans, TraceContext};
