//! What answers in a fake sandbox.

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use connectrpc::{
    ConnectError, ConnectRpcService, InboundStream, RequestContext, Response, Router,
    ServiceRequest, ServiceResult, ServiceStream,
};
use futures::{StreamExt as _, stream};
use http::StatusCode;
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sandbox_wire::sandbox::v1::{__buffa::oneof::run_response::Event, *};
use tower::Service as _;

use super::backend::Inside;

/// A file that cannot be written.
pub const REFUSED: &str = "refused";

pub async fn serve(io: tokio::io::DuplexStream, inside: Arc<Inside>) {
    let router = Router::new()
        .add_service(Arc::new(Programs(Arc::clone(&inside))))
        .add_service(Arc::new(Interpreters(Arc::clone(&inside))))
        .add_service(Arc::new(Still))
        .add_service(Arc::new(Files(inside)));
    let rpc = ConnectRpcService::new(router);
    let service = service_fn(move |request: http::Request<Incoming>| answer(rpc.clone(), request));
    let _ = http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(io), service)
        .await;
}

async fn answer(
    mut rpc: ConnectRpcService,
    request: http::Request<Incoming>,
) -> Result<http::Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    if ["/health", "/init"].contains(&request.uri().path()) {
        let mut response = http::Response::new(Full::new(Bytes::new()).boxed_unsync());
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(response);
    }
    let Ok(response) = rpc.call(request).await;
    Ok(response.map(|body| body.map_err(|error| match error {}).boxed_unsync()))
}

struct Programs(Arc<Inside>);

/// Counts a run that is under way, until the guest knows that its caller is gone.
struct Running(Arc<Inside>);

impl Running {
    fn new(inside: &Arc<Inside>) -> Self {
        inside.fake.running.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(inside))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fake.running.fetch_sub(1, Ordering::SeqCst);
    }
}

fn event(event: impl Into<Event>) -> Result<RunResponse, ConnectError> {
    Ok(RunResponse {
        event: Some(event.into()),
        ..Default::default()
    })
}

fn output(text: &str) -> Output {
    Output {
        stream: Stream::STREAM_STDOUT.into(),
        data: text.as_bytes().to_vec(),
        ..Default::default()
    }
}

fn end(exit_code: i32, termination: Termination) -> Ended {
    Ended {
        exit_code,
        signal: u32::try_from((exit_code - 128).max(0)).unwrap(),
        termination: termination.into(),
        ..Default::default()
    }
}

/// The first argument is what the program does.
impl Code for Programs {
    async fn run(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RunRequest>,
    ) -> ServiceResult<ServiceStream<RunResponse>> {
        let argv = request.to_owned_message().argv;
        let inside = Arc::clone(&self.0);
        let running = Running::new(&inside);
        inside.fake.note_run(argv.get(1).cloned());
        let exited = |code| end(code, Termination::TERMINATION_EXITED);
        let killed = || end(137, Termination::TERMINATION_SIGNALED);
        let (said, end) = match argv[0].as_str() {
            "echo" => (argv[1..].join(" "), exited(0)),
            "cat" => (inside.read(&argv[1]).unwrap_or_default(), exited(0)),
            "killed" => (String::new(), killed()),
            "eats-memory" => {
                inside.oom_kills.fetch_add(1, Ordering::SeqCst);
                (String::new(), killed())
            }
            "child-eats-memory" => {
                inside.oom_kills.fetch_add(1, Ordering::SeqCst);
                (String::new(), exited(1))
            }
            "eats-memory-too-long" => {
                inside.oom_kills.fetch_add(1, Ordering::SeqCst);
                (String::new(), end(137, Termination::TERMINATION_TIMED_OUT))
            }
            "breaks" => return Err(ConnectError::internal("the guest is confused")),
            "dies" => {
                inside.ended.cancel();
                std::future::pending().await
            }
            // Until the test lets it end.
            "waits" => {
                let started = event(Started::default());
                let ended = async move {
                    let turn = inside.fake.gate.acquire().await;
                    turn.unwrap().forget();
                    drop(running);
                    event(end(0, Termination::TERMINATION_EXITED))
                };
                let events = stream::once(async { started }).chain(stream::once(ended));
                return Response::stream_ok(events);
            }
            other => panic!("no program `{other}`"),
        };
        let stdout_bytes = said.len() as u64;
        Response::stream_ok(stream::iter([
            event(Started::default()),
            event(output(&said)),
            event(Ended {
                stdout_bytes,
                ..end
            }),
        ]))
    }
}

/// Each run goes on until the test lets it end.
struct Interpreters(Arc<Inside>);

impl Contexts for Interpreters {
    async fn run(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RunInContextRequest>,
    ) -> ServiceResult<ServiceStream<RunResponse>> {
        let inside = Arc::clone(&self.0);
        let running = Running::new(&inside);
        inside
            .fake
            .note_run(Some(request.to_owned_message().context));
        let ended = async move {
            let turn = inside.fake.gate.acquire().await;
            turn.unwrap().forget();
            drop(running);
            event(end(0, Termination::TERMINATION_EXITED))
        };
        let started = event(Started::default());
        Response::stream_ok(stream::once(async { started }).chain(stream::once(ended)))
    }

    async fn list(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, ListContextsRequest>,
    ) -> ServiceResult<ListContextsResponse> {
        Response::ok(ListContextsResponse::default())
    }

    async fn restart(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, RestartContextRequest>,
    ) -> ServiceResult<RestartContextResponse> {
        Err(ConnectError::not_found("no context"))
    }

    async fn delete(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, DeleteContextRequest>,
    ) -> ServiceResult<DeleteContextResponse> {
        Err(ConnectError::not_found("no context"))
    }
}

struct Files(Arc<Inside>);

fn no_such_call<T>() -> ServiceResult<T> {
    Err(ConnectError::unimplemented("not in a fake"))
}

impl Workspace for Files {
    async fn write(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, WriteRequest>,
    ) -> ServiceResult<WriteResponse> {
        let request = request.to_owned_message();
        if request.path == REFUSED {
            return Err(ConnectError::invalid_argument("not this one"));
        }
        let size_bytes = request.data.len() as u64;
        self.0.write(&request.path, request.data);
        Response::ok(WriteResponse {
            path: request.path,
            size_bytes,
            created: true,
            ..Default::default()
        })
    }

    async fn read_lines(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ReadLinesRequest>,
    ) -> ServiceResult<ReadLinesResponse> {
        let path = request.to_owned_message().path;
        match self.0.read(&path) {
            Some(content) => Response::ok(ReadLinesResponse {
                path,
                content,
                ..Default::default()
            }),
            None => Err(ConnectError::not_found(format!("`{path}` does not exist"))),
        }
    }

    /// Never comes back.
    async fn list(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, ListEntriesRequest>,
    ) -> ServiceResult<ListEntriesResponse> {
        let _running = Running::new(&self.0);
        std::future::pending().await
    }

    async fn read_bytes(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, ReadBytesRequest>,
    ) -> ServiceResult<ServiceStream<ReadBytesResponse>> {
        no_such_call()
    }

    async fn edit(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, EditRequest>,
    ) -> ServiceResult<EditResponse> {
        no_such_call()
    }

    async fn remove(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, RemoveEntryRequest>,
    ) -> ServiceResult<RemoveEntryResponse> {
        no_such_call()
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
        _: ServiceRequest<'_, RenameRequest>,
    ) -> ServiceResult<RenameResponse> {
        no_such_call()
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
