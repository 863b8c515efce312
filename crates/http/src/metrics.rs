//! Every metric, once: its doc comment is the help text in /metrics.

use std::time::Duration;

use prometheus::{
    Encoder as _, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder, core::Collector,
};
use sandbox_admission::Figures;
use sandbox_core::{ErrorCode, Timestamp};
use sandbox_session::DestroyReason;

/// From a hot /bash to a run of an hour, in seconds.
const BUCKETS: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0,
    3600.0,
];
/// How long sessions live, in seconds: from one run to a week.
const LIFETIME_BUCKETS: [f64; 10] = [
    1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0, 259_200.0, 604_800.0,
];

/// What there is to know of a metric without its values.
#[derive(Debug)]
pub struct Declared {
    pub name: &'static str,
    pub labels: &'static [&'static str],
    /// Its samples are `_bucket` (with the label `le`), `_sum` and `_count`.
    pub histogram: bool,
    pub help: &'static str,
}

/// What traffic to a sandbox of the E2B API is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum E2bTraffic {
    Envd,
    Interpreter,
    /// HTTP to any other port.
    Port,
    WebSocket,
}

impl E2bTraffic {
    fn as_str(self) -> &'static str {
        match self {
            Self::Envd => "envd",
            Self::Interpreter => "interpreter",
            Self::Port => "port",
            Self::WebSocket => "websocket",
        }
    }
}

/// One that goes on.
pub struct TrafficCount(IntGauge);

impl Drop for TrafficCount {
    fn drop(&mut self) {
        self.0.dec();
    }
}

trait Declare: Collector + Clone + 'static {
    const HISTOGRAM: bool = false;

    fn declare(opts: Opts, buckets: &[f64], labels: &[&str]) -> prometheus::Result<Self>;
}

impl Declare for IntCounterVec {
    fn declare(opts: Opts, _: &[f64], labels: &[&str]) -> prometheus::Result<Self> {
        Self::new(opts, labels)
    }
}

impl Declare for IntGaugeVec {
    fn declare(opts: Opts, _: &[f64], labels: &[&str]) -> prometheus::Result<Self> {
        Self::new(opts, labels)
    }
}

impl Declare for Histogram {
    const HISTOGRAM: bool = true;

    fn declare(opts: Opts, buckets: &[f64], _: &[&str]) -> prometheus::Result<Self> {
        Self::with_opts(HistogramOpts::from(opts).buckets(buckets.to_vec()))
    }
}

impl Declare for HistogramVec {
    const HISTOGRAM: bool = true;

    fn declare(opts: Opts, buckets: &[f64], labels: &[&str]) -> prometheus::Result<Self> {
        Self::new(HistogramOpts::from(opts).buckets(buckets.to_vec()), labels)
    }
}

macro_rules! metrics {
    ($(#[doc = $help:literal] $field:ident: $kind:ty = $name:literal [$($label:literal),*] $buckets:expr;)+) => {
        /// What the service counts and times. No label has unbounded values.
        pub struct Metrics {
            registry: Registry,
            $(#[doc = $help] $field: $kind,)+
        }

        impl Metrics {
            /// Every metric that is declared here.
            pub const DECLARED: &[Declared] = &[$(Declared {
                name: $name,
                labels: &[$($label),*],
                histogram: <$kind>::HISTOGRAM,
                help: $help,
            }),+];

            fn declared() -> prometheus::Result<Self> {
                let registry = Registry::new();
                $(
                    let $field = <$kind>::declare(
                        Opts::new($name, $help.trim()),
                        $buckets,
                        &[$($label),*],
                    )?;
                    registry.register(Box::new($field.clone()))?;
                )+
                #[cfg(target_os = "linux")]
                registry.register(Box::new(
                    prometheus::process_collector::ProcessCollector::for_self(),
                ))?;
                Ok(Self { registry, $($field),+ })
            }
        }
    };
}

metrics! {
    /// Sessions that have a sandbox now.
    sessions_active: IntGaugeVec = "sandbox_sessions_active" ["backend"] &[];
    /// Sessions that may have a sandbox at a time.
    sessions_limit: IntGaugeVec = "sandbox_sessions_limit" [] &[];
    /// Sandboxes that were started ahead and that no session has yet.
    pool_ready: IntGaugeVec = "sandbox_pool_ready" ["backend"] &[];
    /// Sandboxes made.
    session_created: IntCounterVec = "sandbox_session_created_total" ["backend"] &[];
    /// Sandboxes ended, by why.
    session_destroyed: IntCounterVec = "sandbox_session_destroyed_total" ["backend", "reason"] &[];
    /// Seconds from the wish for a sandbox to its first answer.
    session_create_seconds: Histogram = "sandbox_session_create_seconds" [] &BUCKETS;
    /// Seconds that a sandbox lived.
    session_lifetime_seconds: Histogram = "sandbox_session_lifetime_seconds" [] &LIFETIME_BUCKETS;
    /// Runs, by how they ended: a termination, or an error's code.
    exec: IntCounterVec = "sandbox_exec_total" ["backend", "language", "outcome"] &[];
    /// Seconds from a run's request to its answer.
    exec_seconds: Histogram = "sandbox_exec_seconds" [] &BUCKETS;
    /// Seconds that a run waited for its turn in its session.
    queue_wait_seconds: Histogram = "sandbox_queue_wait_seconds" [] &BUCKETS;
    /// Runs that have one of the service's places now.
    runs_active: IntGaugeVec = "sandbox_runs_active" [] &[];
    /// Runs that wait for one of the service's places now.
    runs_waiting: IntGaugeVec = "sandbox_runs_waiting" [] &[];
    /// Seconds that a run waited for one of the service's places.
    run_wait_seconds: Histogram = "sandbox_run_wait_seconds" [] &BUCKETS;
    /// Requests and runs that the limits on callers refused, by the answer's code.
    requests_refused: IntCounterVec = "sandbox_requests_refused_total" ["code"] &[];
    /// Audit records that wait to be stored.
    audit_queue_depth: IntGaugeVec = "sandbox_audit_queue_depth" [] &[];
    /// 1 when the store and the default backend can serve, else 0; see /readyz.
    ready: IntGaugeVec = "sandbox_ready" [] &[];
    /// Requests to sandboxes of the E2B API under way, and WebSockets to their ports that are open.
    e2b_traffic_active: IntGaugeVec = "sandbox_e2b_traffic_active" ["kind"] &[];
    /// When the certificate of the E2B API expires, in seconds since 1970; none without one.
    e2b_certificate_expires: IntGaugeVec = "sandbox_e2b_certificate_expires_timestamp_seconds" [] &[];
    /// 1, with the version of the service.
    build_info: IntGaugeVec = "sandbox_build_info" ["version"] &[];
    /// Requests answered; 499 is a client that went away before.
    http_requests: IntCounterVec = "sandbox_http_requests_total" ["method", "route", "status"] &[];
    /// Seconds from a request's header to its answer's.
    http_request_seconds: HistogramVec = "sandbox_http_request_seconds" ["route"] &BUCKETS;
}

impl Metrics {
    pub fn new() -> prometheus::Result<Self> {
        let metrics = Self::declared()?;
        metrics
            .build_info
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        Ok(metrics)
    }

    /// The text that Prometheus reads.
    pub fn render(&self) -> prometheus::Result<(String, Vec<u8>)> {
        let encoder = TextEncoder::new();
        let mut text = Vec::new();
        encoder.encode(&self.registry.gather(), &mut text)?;
        Ok((encoder.format_type().to_owned(), text))
    }

    /// What is known only to others, just before it is read.
    pub(crate) fn set_runs(&self, figures: Figures) {
        set(&self.runs_active, figures.running);
        set(&self.runs_waiting, figures.waiting);
    }

    /// What the operator allows.
    pub fn set_sessions_limit(&self, limit: usize) {
        set(&self.sessions_limit, limit);
    }

    /// Counts as one of its kind until it is dropped.
    pub fn e2b_traffic(&self, kind: E2bTraffic) -> TrafficCount {
        let gauge = self.e2b_traffic_active.with_label_values(&[kind.as_str()]);
        gauge.inc();
        TrafficCount(gauge)
    }

    /// `None`: it cannot be told.
    pub fn set_e2b_certificate_expires(&self, at: Option<Timestamp>) {
        let none: [&str; 0] = [];
        match at {
            Some(at) => {
                let gauge = self.e2b_certificate_expires.with_label_values(&none);
                gauge.set(at.0 / 1000);
            }
            None => self.e2b_certificate_expires.reset(),
        }
    }

    pub(crate) fn set_ready(&self, ready: bool) {
        set(&self.ready, usize::from(ready));
    }

    pub(crate) fn set_audit_queue(&self, depth: usize) {
        set(&self.audit_queue_depth, depth);
    }

    pub(crate) fn answered(&self, method: &str, route: &str, status: &str, took: Duration) {
        self.http_requests
            .with_label_values(&[method, route, status])
            .inc();
        self.http_request_seconds
            .with_label_values(&[route])
            .observe(took.as_secs_f64());
    }
}

impl sandbox_execution::Observer for Metrics {
    fn run_ended(&self, backend: &str, language: &str, outcome: &str, took: Duration) {
        self.exec
            .with_label_values(&[backend, language, outcome])
            .inc();
        self.exec_seconds.observe(took.as_secs_f64());
    }
}

/// A gauge without labels; a vector all the same, for that has no sample before
/// it is set.
fn set(gauge: &IntGaugeVec, value: usize) {
    let none: [&str; 0] = [];
    gauge
        .with_label_values(&none)
        .set(i64::try_from(value).unwrap_or(i64::MAX));
}

impl sandbox_admission::Observer for Metrics {
    fn admitted(&self, wait: Duration) {
        self.run_wait_seconds.observe(wait.as_secs_f64());
    }

    fn refused(&self, code: ErrorCode) {
        self.requests_refused
            .with_label_values(&[code.as_str()])
            .inc();
    }
}

/// Sessions' sandboxes.
impl Metrics {
    pub(crate) fn created(&self, backend: &str, took: Duration) {
        self.session_created.with_label_values(&[backend]).inc();
        self.session_create_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn destroyed(&self, backend: &str, reason: DestroyReason, lifetime: Duration) {
        self.session_destroyed
            .with_label_values(&[backend, reason.as_str()])
            .inc();
        self.session_lifetime_seconds
            .observe(lifetime.as_secs_f64());
    }

    pub(crate) fn waited(&self, wait: Duration) {
        self.queue_wait_seconds.observe(wait.as_secs_f64());
    }

    pub(crate) fn active(&self, backend: &str, count: i64) {
        self.sessions_active
            .with_label_values(&[backend])
            .set(count);
    }

    pub(crate) fn pooled(&self, backend: &str, count: i64) {
        self.pool_ready.with_label_values(&[backend]).set(count);
    }
}
