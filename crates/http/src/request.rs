//! The outermost layer: a request's id, span, log line and metrics.

use std::{
    panic::AssertUnwindSafe,
    time::{Duration, Instant},
};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::FutureExt as _;
use http::Method;
use sandbox_core::Error;
use tracing::{Instrument as _, Span, field, info, info_span};

use crate::{
    AppState,
    problem::{self, ApiError},
    request_id::{self, RequestId},
    trace::{TRACERESPONSE, TraceContext},
};

/// For what no route matches: the path itself would be a label without bound.
const NO_ROUTE: &str = "unmatched";
/// As proxies count it: the client went away before the answer.
const CLIENT_CLOSED: &str = "499";

/// What a response says of its route, where no path of the router tells.
#[derive(Clone, Copy, Debug)]
pub struct RouteLabel(pub &'static str);

/// Whose requests are tracked.
#[derive(Clone)]
pub(crate) struct Tracked {
    pub(crate) state: AppState,
    /// Before the routes in metrics and log, to tell one API from the other.
    pub(crate) api: &'static str,
}

pub(crate) async fn track(
    State(Tracked { state, api }): State<Tracked>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = RequestId::of(request.headers());
    request.extensions_mut().insert(id.clone());
    let method = method_label(request.method());
    let route = format!("{api}{}", route_label(&state, &request));
    let span = info_span!(
        "request",
        request.id = %id,
        trace.id = field::Empty,
        // The exporter of spans sets it, where there is one.
        otel.kind = field::Empty,
        http.method = method,
        http.route = %route,
        caller.subject = field::Empty,
        session.tenant = field::Empty,
        session.id = field::Empty,
    );
    let caller = TraceContext::of(request.headers());
    let trace = state
        .spans
        .adopt(&span, &format!("{method} {route}"), caller);
    if let Some(trace) = &trace {
        span.record("trace.id", format_args!("{:032x}", trace.trace_id));
    }
    let mut watch = Watch {
        state,
        span: span.clone(),
        method,
        route,
        started: Instant::now(),
        answered: false,
    };
    async move {
        let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
        let answer = answer.unwrap_or_else(|_| {
            ApiError::from(Error::internal("a handler panicked")).into_response()
        });
        let mut response = problem::render(answer, &id);
        if let Some(RouteLabel(label)) = response.extensions().get() {
            watch.route = format!("{api}{label}");
        }
        if let Some(value) = id.header_value() {
            response.headers_mut().insert(request_id::HEADER, value);
        }
        if let Some(value) = trace.and_then(|trace| trace.header_value()) {
            response.headers_mut().insert(TRACERESPONSE, value);
        }
        watch.answered(response.status().as_u16());
        response
    }
    .instrument(span)
    .await
}

fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        // A client may invent methods.
        _ => "other",
    }
}

/// The route's template, the same with and without the prefix.
fn route_label(state: &AppState, request: &Request) -> String {
    let Some(path) = request.extensions().get::<MatchedPath>() else {
        return NO_ROUTE.to_owned();
    };
    let path = path.as_str();
    path.strip_prefix(state.settings.prefix.as_str())
        .unwrap_or(path)
        .to_owned()
}

/// Reports a request once: with its answer, or when it is dropped without one.
struct Watch {
    state: AppState,
    span: Span,
    method: &'static str,
    route: String,
    started: Instant,
    answered: bool,
}

impl Watch {
    fn answered(&mut self, status: u16) {
        self.answered = true;
        self.state.spans.answered(&self.span, status);
        self.report(&status.to_string());
    }

    fn report(&self, status: &str) {
        let took: Duration = self.started.elapsed();
        self.state
            .metrics
            .answered(self.method, &self.route, status, took);
        info!(
            http.status = status,
            duration_ms = took.as_secs_f64() * 1e3,
            "{} {} -> {status}",
            self.method,
            self.route,
        );
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.answered {
            self.report(CLIENT_CLOSED);
        }
    }
}
