//! What answers in a fake sandbox: it tells what it was asked.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use buffa::Message as _;
use connectrpc::{
    ConnectError, ConnectRpcService, ErrorCode as Connect, ErrorDetail, InboundStream,
    RequestContext, Response, Router, ServiceRequest, ServiceResult, ServiceStream,
};
use futures::{StreamExt as _, stream};
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sandbox_wire::sandbox::v1::{
    __buffa::oneof::{read_bytes_response::Part, run_response::Event},
    *,
};
use serde_json::json;
use tower::Service as _;

/// The one file that can be read: its name says that it is a picture.
pub const FILE: &[u8] = b"0123456789";

/// Content and mode of each path.
pub type Written = BTreeMap<String, (Vec<u8>, u32)>;

/// What was done in the sandboxes of one backend.
#[derive(Clone, Default)]
pub struct Guest {
    /// Runs that go on now.
    pub running: Arc<AtomicUsize>,
    pub written: Arc<Mutex<Written>>,
}

pub async fn serve(io: tokio::io::DuplexStream, guest: Guest) {
    let guest = Arc::new(guest);
    let router = Router::new()
        .add_service(Arc::clone(&guest) as Arc<Guest>)
        .add_service(Arc::new(Interpreters(Arc::clone(&guest))))
        .add_service(Arc::new(Files(Arc::clone(&guest))))
        .add_service(Arc::new(Still))
        .add_service(Arc::new(Searcher));
    let rpc = ConnectRpcService::new(router);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let mut rpc = rpc.clone();
        async move {
            if !request.uri().path().starts_with("/sandbox.") {
                let mut response = http::Response::new(Body::empty());
                *response.status_mut() = StatusCode::NO_CONTENT;
                return Ok(response);
            }
            let Ok(response) = rpc.call(request).await;
            Ok::<_, Infallible>(
                response.map(|body| Body::new(body.map_err(|error| match error {}))),
            )
        }
    });
    let _ = http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(io), service)
        .await;
}

fn error(code: &str, message: &str) -> ConnectError {
    let info = ErrorInfo {
        code: code.into(),
        ..Default::default()
    };
    ConnectError::new(Connect::FailedPrecondition, message).with_detail(ErrorDetail {
        type_url: "type.googleapis.com/sandbox.v1.ErrorInfo".into(),
        value: Some(STANDARD_NO_PAD.encode(info.encode_to_vec())),
        debug: None,
    })
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The program `hang` never ends, `crash` dies by signal 9, `ruby` is missing;
/// every other one prints what it was started with.
impl Code for Guest {
    async fn run(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RunRequest>,
    ) -> ServiceResult<ServiceStream<RunResponse>> {
        let request = request.to_owned_message();
        let script = request.script.into_option();
        let source = script
            .as_ref()
            .map(|script| String::from_utf8_lossy(&script.source).into_owned());
        let program = source
            .clone()
            .or(request.argv.last().cloned())
            .unwrap_or_default();
        if request.argv[0] == "ruby" {
            return Err(error("not_installed", "`ruby` is not installed"));
        }
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(Arc::clone(&self.running));
        let event = |event| RunResponse {
            event: Some(event),
            ..Default::default()
        };
        let started = event(Event::from(Started::default()));
        if program == "hang" {
            let forever = stream::once(async { Ok(started) }).chain(stream::pending());
            return Response::stream_ok(forever.map(move |event| {
                let _ = &running;
                event
            }));
        }
        let said = json!({
            "argv": request.argv,
            "file": script.map(|script| script.file_name),
            "source": source,
            "env": request.env.into_iter().collect::<BTreeMap<_, _>>(),
            "cwd": request.cwd,
            "stdin": String::from_utf8_lossy(&request.stdin),
            "timeout_ms": request.timeout_ms,
            "output_limit_bytes": request.output_limit_bytes,
        });
        let data = said.to_string().into_bytes();
        let crashed = program == "crash";
        let ended = Ended {
            exit_code: if crashed { 137 } else { 0 },
            signal: if crashed { 9 } else { 0 },
            termination: if crashed {
                Termination::TERMINATION_SIGNALED
            } else {
                Termination::TERMINATION_EXITED
            }
            .into(),
            wall_us: 1_500_000,
            cpu_us: 250_000,
            max_rss_bytes: 1 << 20,
            stdout_bytes: data.len() as u64,
            ..Default::default()
        };
        let output = Output {
            stream: Stream::STREAM_STDOUT.into(),
            data,
            ..Default::default()
        };
        let events = [
            started,
            event(Event::from(output)),
            event(Event::from(ended)),
        ];
        Response::stream_ok(stream::iter(events).map(Ok))
    }
}

/// They tell what they were asked, as a result. The code `raise` fails, `die` ends the
/// interpreter; there is one context, `main`.
struct Interpreters(Arc<Guest>);

fn context(runs: u64) -> Context {
    Context {
        name: "main".into(),
        language: "python".into(),
        pid: 7,
        runs,
        age_ms: 2500,
        idle_ms: 1500,
        memory_bytes: 1 << 20,
        ..Default::default()
    }
}

impl Contexts for Interpreters {
    async fn run(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RunInContextRequest>,
    ) -> ServiceResult<ServiceStream<RunResponse>> {
        let request = request.to_owned_message();
        if request.context == "busy" {
            return Err(error("context_busy", "the context is busy"));
        }
        self.0.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(Arc::clone(&self.0.running));
        let limits = request.limits.into_option().unwrap_or_default();
        let said = json!({
            "context": request.context, "language": request.language,
            "driver": request.driver, "argv": request.argv, "code": request.code,
            "timeout_ms": request.timeout_ms,
            "limits": [limits.max_contexts as u64, limits.idle_ms, limits.data_bytes],
        });
        let show = |text: String, is_result| Display {
            bundle_json: json!({"text/plain": text}).to_string(),
            is_result,
            ..Default::default()
        };
        let mut events = vec![Event::from(Started::default())];
        events.push(Event::from(show("shown".into(), false)));
        let failed = request.code == "raise";
        if failed {
            events.push(Event::from(Raised {
                name: "ValueError".into(),
                value: "bad".into(),
                traceback: "Traceback: ValueError: bad".into(),
                ..Default::default()
            }));
        } else {
            events.push(Event::from(show(said.to_string(), true)));
        }
        let loss = match request.code.as_str() {
            "die" => ContextLoss::CONTEXT_LOSS_DIED,
            _ => ContextLoss::CONTEXT_LOSS_UNSPECIFIED,
        };
        events.push(Event::from(Ended {
            exit_code: i32::from(failed),
            termination: Termination::TERMINATION_EXITED.into(),
            context: Some(ContextEnd {
                created: true,
                loss: loss.into(),
                ..Default::default()
            })
            .into(),
            ..Default::default()
        }));
        Response::stream_ok(stream::iter(events).map(move |event| {
            let _ = &running;
            Ok(RunResponse {
                event: Some(event),
                ..Default::default()
            })
        }))
    }

    async fn list(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, ListContextsRequest>,
    ) -> ServiceResult<ListContextsResponse> {
        Response::ok(ListContextsResponse {
            contexts: vec![context(3)],
            ..Default::default()
        })
    }

    async fn restart(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RestartContextRequest>,
    ) -> ServiceResult<RestartContextResponse> {
        match request.to_owned_message().context.as_str() {
            "main" => Response::ok(RestartContextResponse {
                context: context(0).into(),
                ..Default::default()
            }),
            _ => Err(error("not_found", "there is no such context")),
        }
    }

    async fn delete(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, DeleteContextRequest>,
    ) -> ServiceResult<DeleteContextResponse> {
        match request.to_owned_message().context.as_str() {
            "main" => Response::ok(DeleteContextResponse::default()),
            _ => Err(error("not_found", "there is no such context")),
        }
    }
}

struct Files(Arc<Guest>);

impl Workspace for Files {
    async fn read_lines(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ReadLinesRequest>,
    ) -> ServiceResult<ReadLinesResponse> {
        let request = request.to_owned_message();
        match request.path.as_str() {
            "missing" => Err(error("not_found", "`missing` does not exist")),
            path => Response::ok(ReadLinesResponse {
                path: path.into(),
                content: "line\n".into(),
                offset: request.offset,
                lines: 1,
                total_lines: request.limit,
                truncated: true,
                size_bytes: request.max_bytes,
                ..Default::default()
            }),
        }
    }

    async fn read_bytes(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ReadBytesRequest>,
    ) -> ServiceResult<ServiceStream<ReadBytesResponse>> {
        let request = request.to_owned_message();
        if request.path != "a.png" {
            return Err(error("not_found", "no such file"));
        }
        let size = FILE.len();
        let length = request
            .length
            .map_or(size, |length| length.min(size as u64) as usize);
        let start = if request.from_end {
            size - length
        } else {
            (request.offset.min(size as u64)) as usize
        };
        let data = FILE[start..(start + length).min(size)].to_vec();
        let info = FileInfo {
            path: request.path,
            size_bytes: size as u64,
            etag: "v1".into(),
            ..Default::default()
        };
        let part = |part| {
            Ok(ReadBytesResponse {
                part: Some(part),
                ..Default::default()
            })
        };
        // In two parts, for a file seldom comes in one.
        let (first, second) = data.split_at(data.len() / 2);
        Response::stream_ok(stream::iter([
            part(Part::from(info)),
            part(Part::Data(first.to_vec())),
            part(Part::Data(second.to_vec())),
        ]))
    }

    async fn write(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, WriteRequest>,
    ) -> ServiceResult<WriteResponse> {
        let request = request.to_owned_message();
        let size_bytes = request.data.len() as u64;
        let mut written = self.0.written.lock().unwrap();
        let before = written.insert(request.path.clone(), (request.data, request.mode));
        Response::ok(WriteResponse {
            path: request.path,
            size_bytes,
            created: before.is_none(),
            ..Default::default()
        })
    }

    async fn edit(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, EditRequest>,
    ) -> ServiceResult<EditResponse> {
        let request = request.to_owned_message();
        if request.old_string == "twice" && !request.replace_all {
            return Err(error("several_matches", "the text is there 2 times"));
        }
        Response::ok(EditResponse {
            path: request.path,
            replacements: 2,
            ..Default::default()
        })
    }

    async fn list(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ListEntriesRequest>,
    ) -> ServiceResult<ListEntriesResponse> {
        let modified = buffa_types::google::protobuf::Timestamp {
            seconds: 1_700_000_000,
            nanos: 5_000_000,
            ..Default::default()
        };
        let file = Entry {
            name: "a\u{fffd}".into(),
            raw_name: b"a\xff".to_vec(),
            path: "a\u{fffd}".into(),
            kind: EntryKind::ENTRY_KIND_FILE.into(),
            size_bytes: 3,
            mode: 0o100_640,
            modified: modified.into(),
            ..Default::default()
        };
        let link = Entry {
            name: "l".into(),
            raw_name: b"l".to_vec(),
            path: "l".into(),
            kind: EntryKind::ENTRY_KIND_SYMLINK.into(),
            mode: 0o777,
            symlink_target: Some("a".into()),
            ..Default::default()
        };
        Response::ok(ListEntriesResponse {
            path: request.to_owned_message().path,
            entries: vec![file, link],
            ..Default::default()
        })
    }

    async fn remove(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RemoveEntryRequest>,
    ) -> ServiceResult<RemoveEntryResponse> {
        if !request.to_owned_message().recursive {
            return Err(error("directory_not_empty", "the directory is not empty"));
        }
        Response::ok(RemoveEntryResponse::default())
    }

    async fn usage(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, UsageRequest>,
    ) -> ServiceResult<UsageResponse> {
        Response::ok(UsageResponse {
            disk_bytes: 4096,
            entries: 1,
            complete: true,
            ..Default::default()
        })
    }

    async fn rename(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RenameRequest>,
    ) -> ServiceResult<RenameResponse> {
        let request = request.to_owned_message();
        Response::ok(RenameResponse {
            path: format!(
                "{}>{}:{}",
                request.source, request.destination, request.overwrite
            ),
            ..Default::default()
        })
    }

    async fn import(
        &self,
        _: RequestContext,
        _: InboundStream<ImportRequest>,
    ) -> ServiceResult<ImportResponse> {
        Err(ConnectError::unimplemented("import"))
    }

    async fn export(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, ExportRequest>,
    ) -> ServiceResult<ServiceStream<ExportResponse>> {
        Err(ConnectError::unimplemented("export"))
    }

    async fn remove_artifacts(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, RemoveArtifactsRequest>,
    ) -> ServiceResult<RemoveArtifactsResponse> {
        Err(ConnectError::unimplemented("remove_artifacts"))
    }
}

struct Searcher;

impl Search for Searcher {
    async fn grep(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, GrepRequest>,
    ) -> ServiceResult<GrepResponse> {
        let request = request.to_owned_message();
        if request.pattern == "(" {
            return Err(error("invalid_pattern", "unclosed group"));
        }
        let found = GrepMatch {
            path: request.path,
            line: request.max_matches.into(),
            column: request.before.into(),
            text: request.pattern,
            before: vec![request.glob],
            after: vec![request.timeout_ms.to_string()],
            ..Default::default()
        };
        Response::ok(GrepResponse {
            matches: vec![found],
            files: vec![GrepCount {
                path: "f".into(),
                count: 3,
                ..Default::default()
            }],
            timed_out: request.ignore_case && request.literal && request.multiline,
            truncated: request.hidden && request.no_ignore,
            ..Default::default()
        })
    }

    async fn glob(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, GlobRequest>,
    ) -> ServiceResult<GlobResponse> {
        let request = request.to_owned_message();
        Response::ok(GlobResponse {
            paths: vec![
                request.pattern,
                request.path,
                request.max_results.to_string(),
            ],
            truncated: request.hidden,
            ..Default::default()
        })
    }
}

/// Its programs are none, and need not be stopped.
struct Still;

impl Life for Still {
    async fn freeze(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, FreezeRequest>,
    ) -> ServiceResult<FreezeResponse> {
        Response::ok(FreezeResponse::default())
    }

    async fn thaw(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, ThawRequest>,
    ) -> ServiceResult<ThawResponse> {
        Response::ok(ThawResponse::default())
    }
}
