//! Spans at an OpenTelemetry collector, and what a dead one may do.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::any_value::Value as Any,
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message as _;
use serde_json::json;

use crate::support::{Service, until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// A collector that keeps what it is sent.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Vec<u8>>>>);

impl Collector {
    fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self::default();
        let of_thread = collector.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let collector = of_thread.clone();
                std::thread::spawn(move || collector.serve(stream.unwrap()));
            }
        });
        (collector, url)
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
            assert_eq!(line, "POST /v1/traces HTTP/1.1\r\n");
            let mut headers = BTreeMap::new();
            loop {
                line.clear();
                reader.read_line(&mut line).unwrap();
                let Some((name, value)) = line.trim().split_once(": ") else {
                    break;
                };
                headers.insert(name.to_ascii_lowercase(), value.to_owned());
            }
            assert_eq!(headers["content-type"], "application/x-protobuf");
            let mut body = vec![0; headers["content-length"].parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            self.0.lock().unwrap().push(body);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            writer.write_all(answer).unwrap();
            line.clear();
        }
    }

    fn spans(&self) -> Vec<Span> {
        let bodies = self.0.lock().unwrap();
        bodies
            .iter()
            .flat_map(|body| {
                ExportTraceServiceRequest::decode(body.as_slice())
                    .unwrap()
                    .resource_spans
            })
            .inspect(|of_resource| {
                let resource = of_resource.resource.as_ref().unwrap();
                let name = resource.attributes.iter().find(|a| a.key == "service.name");
                let name = name.unwrap().value.as_ref().unwrap().value.clone();
                assert_eq!(name, Some(Any::StringValue("sandboxd".into())));
            })
            .flat_map(|of_resource| of_resource.scope_spans)
            .flat_map(|of_scope| of_scope.spans)
            .collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(span: &Span, key: &str) -> Option<Any> {
    let found = span.attributes.iter().find(|found| found.key == key)?;
    found.value.clone()?.value
}

fn send(service: &Service, path: &str, traceparent: &str, body: &str) -> crate::support::Answer {
    let headers = [
        ("content-type", "application/json"),
        ("traceparent", traceparent),
        ("authorization", "Bearer s3cret"),
    ];
    service
        .client()
        .send("POST", path, &headers, Some(body.as_bytes()))
}

#[test]
fn the_collector_sees_a_run_in_its_callers_trace() {
    let (collector, url) = Collector::start();
    let mut service = Service::start_with(&[("SANDBOX_OTLP_ENDPOINT", &url)]);
    let body = json!({"session_id": "s1", "code": "print('s3cret')", "tenant_id": "acme"});
    let sampled = format!("00-{TRACE}-{CALLER}-01");
    let answer = send(&service, "/execute", &sampled, &body.to_string());
    assert_eq!(answer.stdout(), "s3cret\n");
    let response = answer.header("traceresponse").to_owned();
    // One that its caller does not keep, one that is no trace, one that is refused.
    let unsampled = "00-11111111111111111111111111111111-2222222222222222-00";
    send(&service, "/bash", unsampled, r#"{"command": "true"}"#);
    let invalid = send(&service, "/bash", "00-xyz", r#"{"command": "true"}"#);
    assert_eq!(invalid.status, 200);
    send(&service, "/bash", &sampled, "{}");
    // What is left is sent before the end.
    service.terminate();
    assert!(service.wait().success());

    let spans = collector.spans();
    let ours: Vec<&Span> = spans
        .iter()
        .filter(|span| hex(&span.trace_id) == TRACE)
        .collect();
    let named = |name: &str| *ours.iter().find(|span| span.name == name).unwrap();
    let request = named("POST /execute");
    assert_eq!(hex(&request.parent_span_id), CALLER);
    assert_eq!(request.kind, SpanKind::Server as i32);
    assert_eq!(
        response,
        format!("00-{TRACE}-{}-01", hex(&request.span_id)),
        "the answer names the span"
    );
    let run = named("run");
    assert_eq!(run.parent_span_id, request.span_id);
    for inner in ["run.admission", "session.acquire"] {
        assert_eq!(named(inner).parent_span_id, run.span_id, "{inner}");
    }
    for (key, value) in [
        ("session.tenant", Any::StringValue("acme".into())),
        ("session.id", Any::StringValue("s1".into())),
        ("http.route", Any::StringValue("/execute".into())),
        ("http.response.status_code", Any::IntValue(200)),
    ] {
        assert_eq!(attribute(request, key), Some(value), "{key}");
    }
    let refused = named("POST /bash");
    assert_eq!(
        attribute(refused, "http.response.status_code"),
        Some(Any::IntValue(400))
    );
    // A client's fault is no error of the service.
    let status = refused.status.as_ref().map(|status| status.code);
    assert_ne!(status, Some(StatusCode::Error as i32));
    assert!(
        spans
            .iter()
            .all(|span| hex(&span.trace_id) != "1".repeat(32))
    );
    let of_itself = |span: &&Span| span.name == "POST /bash" && span.parent_span_id.is_empty();
    assert_eq!(spans.iter().filter(of_itself).count(), 1);
    for body in collector.0.lock().unwrap().iter() {
        let text = String::from_utf8_lossy(body);
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn a_collector_that_never_answers_slows_nothing() {
    // It takes connections and bytes, as much as the kernel does for it.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let mut service = Service::start_with(&[
        ("SANDBOX_OTLP_ENDPOINT", &url),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "8"),
    ]);
    until("it has sent something", || {
        service.get("/healthz");
        silent.set_nonblocking(true).unwrap();
        silent.accept().is_ok()
    });
    let began = Instant::now();
    for _ in 0..200 {
        assert_eq!(service.get("/healthz").status, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    let stopping = Instant::now();
    service.terminate();
    assert!(service.wait().success());
    assert!(stopping.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_dead_collector_is_named_once_in_the_log() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut service = Service::start_logging(
        &[
            ("SANDBOX_OTLP_ENDPOINT", &url),
            ("OTEL_BSP_SCHEDULE_DELAY", "10"),
        ],
        log.as_file().try_clone().unwrap(),
    );
    let lines = || std::fs::read_to_string(log.path()).unwrap();
    until("the log says so", || {
        service.get("/healthz");
        lines().contains("traces are dropped")
    });
    for _ in 0..50 {
        assert_eq!(service.get("/healthz").status, 200);
    }
    service.terminate();
    assert!(service.wait().success());
    assert_eq!(lines().matches("traces are dropped").count(), 1);
    assert!(lines().lines().count() < 10, "{}", lines());
}
