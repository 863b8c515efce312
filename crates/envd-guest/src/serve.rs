//! One connection with all services, as a guest's.

use std::{
    collections::BTreeMap, convert::Infallible, io, path::PathBuf, sync::Arc, time::Duration,
};

use bytes::Bytes;
use connectrpc::{
    ConnectError, ConnectRpcService, Limits, RequestContext, Response as RpcResponse, Router,
    ServiceRequest, ServiceResult, ServiceStream,
    client::{ClientTransport as _, full_body},
};
use http::{HeaderName, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sandbox_wire::process::{
    CloseStdinRequest, CloseStdinResponse, ConnectRequest, ConnectResponse, ListRequest,
    ListResponse, Process, SendInputRequest, SendInputResponse, SendSignalRequest,
    SendSignalResponse, StartRequest, StartResponse, StreamInputRequest, StreamInputResponse,
    UpdateRequest, UpdateResponse,
};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::Service as _;

use crate::{
    contexts::ContextService, envd::Envd, process, run::CodeService, search::SearchService,
    state::State, workspace::WorkspaceService,
};

type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Largest request: a file to write.
const MAX_MESSAGE_BYTES: usize = 80 * 1024 * 1024;
const MAX_INIT_BYTES: usize = 4 * 1024 * 1024;
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
const MAX_STREAMS: u32 = 512;

/// Gives a guest's services over `io` until its end.
///
/// *Requires*: `workspace` is an absolute path without links and dots, of a folder that
/// is there and that the sandbox's user may write.
///
/// *Behavior*: when `io` ends, or this is dropped, the runs under way are ended.
pub async fn serve<S>(envd: Envd, workspace: impl Into<PathBuf>, io: S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let services = Services::new(Arc::new(State::new(envd, workspace.into())));
    let service = service_fn(move |request| services.clone().answer(request));
    http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(io), service)
        .await
        .map_err(io::Error::other)
}

#[derive(Clone)]
struct Services {
    state: Arc<State>,
    rpc: ConnectRpcService,
}

impl Services {
    fn new(state: Arc<State>) -> Self {
        let router = Router::new()
            .add_service(Arc::new(CodeService(Arc::clone(&state))))
            .add_service(Arc::new(ContextService))
            .add_service(Arc::new(ProcessService(Arc::clone(&state))))
            .add_service(Arc::new(SearchService(Arc::clone(&state))))
            .add_service(Arc::new(WorkspaceService(Arc::clone(&state))));
        let rpc = ConnectRpcService::new(router).with_limits(
            Limits::default()
                .with_max_request_body_size(MAX_MESSAGE_BYTES)
                .with_max_message_size(MAX_MESSAGE_BYTES),
        );
        Self { state, rpc }
    }

    async fn answer(mut self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path();
        let is_ours = [
            "/sandbox.",
            "/process.Process/Start",
            "/process.Process/SendSignal",
        ]
        .iter()
        .any(|start| path.starts_with(start));
        if is_ours {
            let Ok(response) = self.rpc.call(request).await;
            return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
        }
        let is_envds = ["/process.Process/", "/filesystem.Filesystem/"]
            .iter()
            .any(|start| path.starts_with(start))
            || ["/files", "/health", "/metrics", "/envs"].contains(&path);
        Ok(match (request.method(), path) {
            (&Method::POST, "/init") => init(&self.state, request).await,
            // envd has no way to them; who has one to the sandbox goes past it.
            (_, path) if path.starts_with("/ports/") => {
                plain(StatusCode::BAD_GATEWAY, "port is not open")
            }
            _ if is_envds => pass_on(&self.state.envd, request).await,
            _ => plain(StatusCode::NOT_FOUND, "there is no such route"),
        })
    }
}

fn plain(status: StatusCode, message: &str) -> Response<Body> {
    let body = json!({ "code": status.as_u16(), "message": message }).to_string();
    let mut answer = with_body(body.into());
    *answer.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

fn with_body(body: Bytes) -> Response<Body> {
    let body = Full::new(body).map_err(|never| match never {});
    Response::new(body.boxed_unsync())
}

/// The variables that a sandbox starts with. They are kept here: envd takes its own from
/// who runs it.
#[derive(Deserialize)]
struct Init {
    #[serde(default, rename = "envVars")]
    env: Option<BTreeMap<String, String>>,
}

async fn init(state: &State, request: Request<Incoming>) -> Response<Body> {
    let body = Limited::new(request.into_body(), MAX_INIT_BYTES).collect();
    let Ok(body) = body.await else {
        return plain(StatusCode::BAD_REQUEST, "the body is too large or broken");
    };
    match serde_json::from_slice::<Init>(&body.to_bytes()) {
        Ok(init) => state.add_env(init.env.unwrap_or_default()),
        Err(cause) => return plain(StatusCode::BAD_REQUEST, &cause.to_string()),
    }
    let mut answer = with_body(Bytes::new());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// Of one connection, and not for the next (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    header::HOST,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Sends a request to envd as it is, and its answer back.
async fn pass_on(envd: &Envd, request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let route = parts.uri.path_and_query().map_or("/", |it| it.as_str());
    let uri = format!("{}{route}", envd.base.to_string().trim_end_matches('/'));
    let Ok(uri) = uri.parse::<Uri>() else {
        return plain(StatusCode::BAD_REQUEST, "there is no such address");
    };
    let body = match hyper::body::Body::is_end_stream(&body) {
        true => full_body(Bytes::new()),
        false => body
            .map_err(|cause| ConnectError::canceled(cause.to_string()))
            .boxed(),
    };
    let mut forwarded = Request::new(body);
    *forwarded.method_mut() = parts.method;
    *forwarded.uri_mut() = uri;
    *forwarded.headers_mut() = parts.headers;
    for name in &HOP_BY_HOP {
        forwarded.headers_mut().remove(name);
    }
    match envd.transport.send(forwarded).await {
        Ok(answer) => {
            let (mut parts, body) = answer.into_parts();
            for name in &HOP_BY_HOP {
                parts.headers.remove(name);
            }
            parts.version = http::Version::HTTP_2;
            Response::from_parts(parts, body.map_err(Into::into).boxed_unsync())
        }
        Err(cause) => {
            tracing::warn!(error = ?cause, "envd cannot be reached");
            plain(
                StatusCode::BAD_GATEWAY,
                "the sandbox cannot be reached, or has ended",
            )
        }
    }
}

/// What of `process.Process` is not envd's alone.
struct ProcessService(Arc<State>);

/// It never comes here: the connection passes it on.
fn elsewhere<T>() -> ServiceResult<T> {
    Err(ConnectError::unimplemented("this call is envd's"))
}

impl Process for ProcessService {
    async fn start(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, StartRequest>,
    ) -> ServiceResult<ServiceStream<StartResponse>> {
        let keepalive = context.header("keepalive-ping-interval");
        let keepalive = keepalive.and_then(|it| it.to_str().ok());
        let limit: Option<Duration> = context.time_remaining();
        let events = process::start(&self.0, request.to_owned_message(), keepalive, limit).await?;
        Ok(RpcResponse::stream(events))
    }

    async fn send_signal(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, SendSignalRequest>,
    ) -> ServiceResult<SendSignalResponse> {
        RpcResponse::ok(process::signal(&self.0, request.to_owned_message()).await?)
    }

    async fn list(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, ListRequest>,
    ) -> ServiceResult<ListResponse> {
        elsewhere()
    }

    async fn connect(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, ConnectRequest>,
    ) -> ServiceResult<ServiceStream<ConnectResponse>> {
        elsewhere()
    }

    async fn update(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, UpdateRequest>,
    ) -> ServiceResult<UpdateResponse> {
        elsewhere()
    }

    async fn stream_input(
        &self,
        _: RequestContext,
        _: connectrpc::InboundStream<StreamInputRequest>,
    ) -> ServiceResult<StreamInputResponse> {
        elsewhere()
    }

    async fn send_input(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, SendInputRequest>,
    ) -> ServiceResult<SendInputResponse> {
        elsewhere()
    }

    async fn close_stdin(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, CloseStdinRequest>,
    ) -> ServiceResult<CloseStdinResponse> {
        elsewhere()
    }
}
