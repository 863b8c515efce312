//! Spans of requests on their way to an OpenTelemetry collector.
//!
//! The exporter has a queue with an end and a thread of its own: where the
//! collector is slow or dead, spans are dropped and requests go on.

use std::{
    error::Error,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use opentelemetry::{
    Context,
    trace::{
        SpanContext, SpanId, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState,
        TracerProvider as _,
    },
};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, hyper::HyperClient};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use sandbox_http::{Spans, TraceContext};
use tokio::runtime::Handle;
use tracing::{Metadata, Span, Subscriber, info, warn};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

const EXPORT_LIMIT: Duration = Duration::from_secs(5);
const PATH: &str = "/v1/traces";

/// What is exported when the service stops, or is lost.
pub struct Exporter(SdkTracerProvider);

impl Exporter {
    /// The endpoint is a collector's base address, such as `http://127.0.0.1:4318`.
    pub fn start(endpoint: &str, runtime: &Handle) -> Result<Self, Box<dyn Error>> {
        let sender = Sender {
            runtime: runtime.clone(),
            client: HyperClient::with_default_connector(EXPORT_LIMIT, None),
            failing: AtomicBool::new(false),
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(sender)
            .with_endpoint(format!("{}{PATH}", endpoint.trim_end_matches('/')))
            .with_timeout(EXPORT_LIMIT)
            .build()?;
        let resource = Resource::builder()
            .with_service_name("sandboxd")
            .with_attribute(opentelemetry::KeyValue::new(
                "service.version",
                env!("CARGO_PKG_VERSION"),
            ))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        Ok(Self(provider))
    }

    /// Takes the service's own spans, whatever the log's filter says, and no events.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("sandboxd"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(is_ours))
    }

    /// Sends what is left, and takes no longer than this.
    pub fn stop(self, limit: Duration) {
        if let Err(error) = self.0.shutdown_with_timeout(limit) {
            warn!("the last traces are lost: {error}");
        }
    }
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target().starts_with("sandbox_")
}

/// Adopts the spans of requests.
pub struct Exported;

impl Spans for Exported {
    fn adopt(&self, span: &Span, name: &str, caller: Option<TraceContext>) -> Option<TraceContext> {
        span.record("otel.kind", "server");
        if let Some(caller) = caller {
            let context = SpanContext::new(
                TraceId::from(caller.trace_id),
                SpanId::from(caller.span_id),
                TraceFlags::default().with_sampled(caller.sampled),
                true,
                TraceState::NONE,
            );
            // Fails only for a span that nobody exports.
            let _ = span.set_parent(Context::new().with_remote_span_context(context));
        }
        let context = span.context();
        let own = context.span();
        own.update_name(name.to_owned());
        let own = own.span_context();
        own.is_valid().then(|| TraceContext {
            trace_id: u128::from_be_bytes(own.trace_id().to_bytes()),
            span_id: u64::from_be_bytes(own.span_id().to_bytes()),
            sampled: own.is_sampled(),
        })
    }

    fn answered(&self, span: &Span, status: u16) {
        span.set_attribute("http.response.status_code", i64::from(status));
        if status >= 500 {
            span.set_status(Status::error(""));
        }
    }
}

/// Sends on the service's runtime, for the exporter's thread has none.
#[derive(Debug)]
struct Sender {
    runtime: Handle,
    client: HyperClient,
    /// The last one did not arrive, and the log says so.
    failing: AtomicBool,
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sending = self
            .runtime
            .spawn(async move { client.send_bytes(request).await });
        let result = sending.await.map_err(HttpError::from).and_then(|sent| sent);
        let problem = match &result {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(answer.status().to_string()),
            Err(error) => Some(match error.source() {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            }),
        };
        self.tell(problem);
        result
    }
}

impl Sender {
    /// Once when it begins and once when it ends: a dead collector must not fill the log.
    fn tell(&self, problem: Option<String>) {
        let failed = self.failing.swap(problem.is_some(), Ordering::Relaxed);
        match (failed, problem) {
            (false, Some(problem)) => warn!("traces are dropped, the collector fails: {problem}"),
            (true, None) => info!("the collector takes traces again"),
            _ => {}
        }
    }
}
