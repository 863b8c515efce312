//! What the API is made of, and its door.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{Method, StatusCode};
use sandbox_admission::{Admission, Places};
use sandbox_audit::Audit;
use sandbox_auth::Auth;
use sandbox_core::{Capabilities, Clock};
use sandbox_execution::Executions;
use sandbox_http::Metrics;
use sandbox_session::SessionManager;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::{
    E2bSettings, Secret, control,
    error::Refusal,
    interpreter::Directories,
    target::{Target, Unclear, target},
    traffic,
};

/// What an E2B API is made of.
pub struct E2bParts {
    pub sessions: Arc<SessionManager>,
    pub executions: Executions,
    pub admission: Arc<Admission>,
    pub auth: Auth,
    pub audit: Audit,
    pub metrics: Arc<Metrics>,
    pub clock: Arc<dyn Clock>,
    /// Of the backend.
    pub capabilities: Capabilities,
    pub secret: Secret,
    pub settings: E2bSettings,
}

/// A clone is the same API.
#[derive(Clone)]
pub(crate) struct Facade(Arc<Inner>);

pub(crate) struct Inner {
    parts: E2bParts,
    pub directories: Directories,
    /// To sandboxes, and under way.
    pub requests: Places,
    /// Connections to ports that have changed their protocol, and are not requests any more.
    pub sockets: Places,
    /// Connections that were taken over from their requests.
    pub tasks: TaskTracker,
}

impl std::ops::Deref for Inner {
    type Target = E2bParts;

    fn deref(&self) -> &E2bParts {
        &self.parts
    }
}

impl std::ops::Deref for Facade {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// The whole API, for a listener of its own.
pub fn router(parts: E2bParts) -> Router {
    let settings = &parts.settings;
    let facade = Facade(Arc::new(Inner {
        // In all, they are bounded by the listener's connections.
        requests: Places::new(usize::MAX, settings.tenant_requests),
        sockets: Places::new(settings.sockets, settings.tenant_sockets),
        parts,
        directories: Directories::default(),
        tasks: TaskTracker::new(),
    }));
    let control = control::router(facade.clone());
    Router::new()
        .fallback(dispatch)
        .with_state(Door { facade, control })
}

#[derive(Clone)]
struct Door {
    facade: Facade,
    control: Router,
}

async fn dispatch(State(door): State<Door>, request: Request) -> Response {
    if request.method() == Method::CONNECT {
        return Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this is no proxy").into_response();
    }
    if door.facade.auth.is_off()
        && let Err(error) = sandbox_http::refuse_foreign_pages(request.headers())
    {
        return Refusal::from(error).into_response();
    }
    let settings = &door.facade.settings;
    let strangers = !door.facade.auth.is_off();
    let domain = settings.domain.as_ref();
    match target(domain, strangers, request.uri(), request.headers()) {
        Ok(Target::Control) => {
            let label = control::label(request.uri().path());
            let Ok(mut response) = door.control.oneshot(request).await;
            response.extensions_mut().insert(label);
            response
        }
        Ok(Target::Port { sandbox, port }) => {
            let label = traffic::label(port, request.uri().path());
            let mut response = traffic::answer(&door.facade, &sandbox, port, request).await;
            response.extensions_mut().insert(label);
            response
        }
        Err(Unclear(why)) => Refusal::bad(why).into_response(),
    }
}
