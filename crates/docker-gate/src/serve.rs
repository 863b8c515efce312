//! The listener: each connection brings one request, and every step has a limit.

use std::{
    convert::Infallible,
    fs, io,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

use crate::{
    gate::Gate,
    policy::Policy,
    stall::{Released, StallGuard},
};

/// Between two tries to accept when the machine has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);
const MAX_HEADERS: usize = 64;
/// For the owner and the group alone: whoever may connect may run sandboxes.
const SOCKET_MODE: u32 = 0o660;

/// What a connection may take.
#[derive(Clone, Debug)]
pub struct GateLimits {
    pub header_read_timeout: Duration,
    pub max_header_bytes: usize,
    /// How long a client may take none of its answer.
    pub write_timeout: Duration,
    /// More wait in the listener's queue. A running sandbox has one.
    pub max_connections: usize,
    /// How long calls under way may go on after the shutdown began.
    pub drain_timeout: Duration,
}

impl Default for GateLimits {
    fn default() -> Self {
        Self {
            header_read_timeout: Duration::from_secs(10),
            max_header_bytes: 32 * 1024,
            write_timeout: Duration::from_secs(60),
            max_connections: 4096,
            drain_timeout: Duration::from_secs(5),
        }
    }
}

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// `host:port`, or the path of a socket, `unix://` before it or not.
    pub async fn bind(at: &str) -> io::Result<Self> {
        let path = at.strip_prefix("unix://").unwrap_or(at);
        if !path.starts_with('/') {
            let at = at.strip_prefix("tcp://").unwrap_or(at);
            return TcpListener::bind(at).await.map(Self::Tcp);
        }
        let path = PathBuf::from(path);
        remove_left(&path).await?;
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(SOCKET_MODE))?;
        Ok(Self::Unix(listener))
    }

    async fn accept(&self) -> Stream {
        loop {
            let accepted = match self {
                Self::Tcp(listener) => listener
                    .accept()
                    .await
                    .map(|(stream, _)| Stream::Tcp(stream)),
                Self::Unix(listener) => listener
                    .accept()
                    .await
                    .map(|(stream, _)| Stream::Unix(stream)),
            };
            match accepted {
                Ok(stream) => return stream,
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    warn!("failed to accept a connection: {error}");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Removes the socket of a gate that is gone; one that answers is left alone.
async fn remove_left(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is something else than a socket",
        )),
        Ok(_) => match UnixStream::connect(path).await {
            Ok(_) => Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another process listens there",
            )),
            Err(_) => fs::remove_file(path),
        },
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

/// Serves until `shutdown` resolves; streams of sandboxes end with it.
pub async fn serve(
    listener: Listener,
    policy: Policy,
    upstream: PathBuf,
    limits: GateLimits,
    shutdown: impl Future<Output = ()>,
) {
    let tasks = TaskTracker::new();
    let finish = CancellationToken::new();
    let abort = CancellationToken::new();
    let gate = Arc::new(Gate::new(policy, upstream, tasks.clone(), finish.clone()));
    let slots = Arc::new(Semaphore::new(limits.max_connections));
    let accept = async {
        loop {
            // The semaphore is never closed.
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                return;
            };
            let stream = listener.accept().await;
            let released = Released::default();
            let limit = limits.write_timeout;
            let connection = Connection {
                gate: Arc::clone(&gate),
                released: Arc::clone(&released),
                limits: limits.clone(),
                finish: finish.clone(),
                abort: abort.clone(),
            };
            match stream {
                Stream::Tcp(stream) => {
                    prepare(&stream);
                    let stream = StallGuard::new(stream, limit, released, slot);
                    tasks.spawn(connection.serve(stream));
                }
                Stream::Unix(stream) => {
                    let stream = StallGuard::new(stream, limit, released, slot);
                    tasks.spawn(connection.serve(stream));
                }
            }
        }
    };
    tokio::select! {
        () = accept => {}
        () = shutdown => {}
    }
    drop(listener);
    finish.cancel();
    tasks.close();
    info!("no more calls are taken");
    if timeout(limits.drain_timeout, tasks.wait()).await.is_err() {
        warn!("ended calls whose time was up");
        abort.cancel();
        tasks.wait().await;
    }
}

fn prepare(stream: &TcpStream) {
    // Small messages of a sandbox must not wait for an acknowledgement; and a client
    // that is gone without a word is found out, for its container ends with it.
    let prepared = stream
        .set_nodelay(true)
        .and_then(|()| Ok(rustix::net::sockopt::set_socket_keepalive(stream, true)?));
    if let Err(error) = prepared {
        debug!("failed to prepare a connection: {error}");
    }
}

struct Connection {
    gate: Arc<Gate>,
    released: Released,
    limits: GateLimits,
    finish: CancellationToken,
    abort: CancellationToken,
}

impl Connection {
    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self {
            gate,
            released,
            limits,
            finish,
            abort,
        } = self;
        let service = service_fn(|request| {
            let answer = Arc::clone(&gate).handle(request, Arc::clone(&released));
            async { Ok::<_, Infallible>(answer.await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_read_timeout)
            .max_header_size(limits.max_header_bytes)
            .max_headers(MAX_HEADERS)
            // What follows a request is never read as another one.
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection.with_upgrades());
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = finish.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = abort.cancelled() => return,
                }
            }
        };
        if let Err(error) = ended {
            debug!("a connection ended: {error}");
        }
    }
}
