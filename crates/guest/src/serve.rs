//! The sandbox's init: one connection, all services.

use std::{
    convert::Infallible,
    fs, io,
    os::{fd::AsFd, unix::net::UnixStream as StdUnixStream},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use connectrpc::{ConnectRpcService, Limits, Router};
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustix::{fs::FileType, process::DumpableBehavior};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{UnixStream, unix::pipe},
};
use tower::Service as _;

use crate::{
    UserLimits,
    attached::Attached,
    beside::Beside,
    code::CodeService,
    contexts::ContextService,
    filesystem::FilesystemService,
    life::{self, LifeService},
    listen::Listening,
    process::ProcessService,
    reaper::Reaper,
    rest,
    run::Starter,
    search::SearchService,
    state::Guest,
    users::Users,
    warm::{Preload, Warm},
    workspace::WorkspaceService,
};

type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Largest request: a file to write.
const MAX_MESSAGE_BYTES: usize = 80 * 1024 * 1024;
/// What may wait of one upload, and of all of them, before the sender waits.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
/// Room for all streams: programs that do not read what is sent to their ports must not
/// stop the others.
const CONNECTION_WINDOW_BYTES: u32 = MAX_STREAMS * STREAM_WINDOW_BYTES;
const MAX_STREAMS: u32 = 512;
/// Threads for file work; they count against the sandbox's processes.
const FILE_THREADS: usize = 4;

/// Serves the connection on standard input until its end: a socket, or one pipe
/// in and one out on standard output, as a container is attached to.
pub(crate) fn serve(
    guest: Guest,
    limits: UserLimits,
    door: Door,
    preload: Option<Preload>,
) -> io::Result<()> {
    // User programs may run as the same user: nothing of ours is theirs to read.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // Whatever the guest was started with is not for programs.
    close_fds::set_fds_cloexec(3, &[]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(FILE_THREADS)
        .thread_stack_size(1024 * 1024)
        .thread_keep_alive(Duration::from_secs(365 * 24 * 3600))
        .build()?;
    runtime.block_on(async {
        let beside = Beside::init()?;
        let connection = door.open().await?;
        guest.templates.take()?;
        // One thread exists from the start, so that files can be read and
        // removed when a program has taken every process slot.
        let _ = tokio::task::spawn_blocking(|| ()).await;
        let guest = Arc::new(guest);
        let starter = Starter::new(Reaper::start()?, limits, Arc::clone(&guest.disk));
        tokio::spawn(Arc::clone(&guest.disk).watch());
        let warm = preload.map(|preload| Warm::start(Arc::clone(&guest), starter.clone(), preload));
        let services = Services::new(guest, starter, warm.transpose()?);
        let serving = async {
            match connection {
                Connection::Socket(socket) => services.serve(socket).await,
                Connection::Attached(attached) => {
                    attached
                        .serve(async |connection| services.serve(connection).await)
                        .await
                }
                Connection::Listening(listening) => {
                    listening
                        .serve(async |connection| services.serve(connection).await)
                        .await
                }
            }
        };
        match beside {
            None => serving.await,
            Some(beside) => beside.until_told(serving).await,
        }
    })
}

enum Connection {
    Socket(UnixStream),
    Attached(Attached),
    Listening(Listening),
}

/// Where the connection comes from.
pub(crate) struct Door {
    /// A port of the sandbox; `None`: the standard streams.
    pub port: Option<u16>,
    /// How long the guest goes on without a service.
    pub alone: Option<Duration>,
}

impl Door {
    async fn open(self) -> io::Result<Connection> {
        match self.port {
            Some(port) => Ok(Connection::Listening(
                Listening::start(port, self.alone).await?,
            )),
            None => take_connection(self.alone),
        }
    }
}

/// Takes the connection from the standard streams, where no program can inherit it.
fn take_connection(alone: Option<Duration>) -> io::Result<Connection> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
    if FileType::from_raw_mode(rustix::fs::fstat(&input)?.st_mode).is_socket() {
        let socket = StdUnixStream::from(input);
        socket.set_nonblocking(true)?;
        return Ok(Connection::Socket(UnixStream::from_std(socket)?));
    }
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(fs::File::options().write(true).open("/dev/null")?)?;
    Ok(Connection::Attached(Attached::new(
        pipe::Receiver::from_owned_fd(input)?,
        pipe::Sender::from_owned_fd(output)?,
        alone,
    )))
}

#[derive(Clone)]
struct Services {
    guest: Arc<Guest>,
    rpc: ConnectRpcService,
    /// For calls that name a user; those of the service do not.
    rpc_of_users: ConnectRpcService,
}

impl Services {
    fn new(guest: Arc<Guest>, starter: Starter, warm: Option<Warm>) -> Self {
        let router = Router::new()
            .add_service(Arc::new(CodeService::new(
                Arc::clone(&guest),
                starter.clone(),
                warm.clone(),
            )))
            .add_service(Arc::new(ContextService::new(
                Arc::clone(&guest),
                starter.clone(),
                warm.clone(),
            )))
            .add_service(Arc::new(ProcessService::new(Arc::clone(&guest), starter)))
            .add_service(Arc::new(FilesystemService::new(Arc::clone(&guest))))
            .add_service(Arc::new(LifeService::default()))
            .add_service(Arc::new(SearchService::new(Arc::clone(&guest))))
            .add_service(Arc::new(WorkspaceService::new(Arc::clone(&guest), warm)));
        let rpc = ConnectRpcService::new(router).with_limits(
            Limits::default()
                .with_max_request_body_size(MAX_MESSAGE_BYTES)
                .with_max_message_size(MAX_MESSAGE_BYTES),
        );
        let rpc_of_users = rpc.clone().with_interceptor(Users);
        Self {
            guest,
            rpc,
            rpc_of_users,
        }
    }

    async fn serve(&self, connection: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let services = self.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let names_user = request.headers().contains_key(header::AUTHORIZATION);
            let rpc = match names_user {
                true => services.rpc_of_users.clone(),
                false => services.rpc.clone(),
            };
            answer(rpc, Arc::clone(&services.guest), request)
        });
        http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_streams(MAX_STREAMS)
            .max_send_buf_size(64 * 1024)
            .serve_connection(TokioIo::new(connection), service)
            .await
            .map_err(io::Error::other)
    }
}

async fn answer(
    mut rpc: ConnectRpcService,
    guest: Arc<Guest>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path();
    let is_rpc = ["/process.", "/filesystem.", "/sandbox."]
        .iter()
        .any(|package| path.starts_with(package));
    let changes_files = ["/filesystem.", "/sandbox.v1.Workspace/", "/files"]
        .iter()
        .any(|start| path.starts_with(start));
    let runs_programs = ["/sandbox.v1.Code/", "/sandbox.v1.Contexts/"]
        .iter()
        .any(|start| path.starts_with(start));
    if is_rpc {
        // What these ask cannot answer while it is frozen.
        if runs_programs {
            life::awake().await;
        }
        let Ok(response) = rpc.call(request).await;
        if changes_files {
            guest.last_change.is_now();
            guest.disk.stir();
        }
        Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
    } else {
        let response = rest::handle(Arc::clone(&guest), request).await;
        if changes_files {
            guest.last_change.is_now();
            guest.disk.stir();
        }
        Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
    }
}
