//! The server: every step of a connection has a limit in time or in size.
//!
//! `axum::serve` installs no timer, and without one hyper's header timeout does
//! nothing; so connections are served here.

mod certificate;
mod preface;
mod stall;
mod tls;

use std::{
    io,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

pub use certificate::TlsError;
use preface::Begun;
use stall::StallGuard;
pub use tls::Tls;

/// Between two tries to accept when the machine has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Of one HTTP/2 connection; the SDKs of E2B open another one when these are taken.
const MAX_STREAMS: u32 = 128;
/// An HTTP/2 client that has gone without a word is noticed by these.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// What a connection may take.
#[derive(Clone, Debug)]
pub struct ServeLimits {
    /// From a connection's start, or its last answer, to the end of the next
    /// header; so an idle connection lives no longer either.
    pub header_read_timeout: Duration,
    pub max_header_bytes: usize,
    /// How long a client may take none of its answer.
    pub write_timeout: Duration,
    /// More wait in the listener's queue.
    pub max_connections: usize,
    /// How long requests under way may go on after the shutdown began.
    pub drain_timeout: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            header_read_timeout: Duration::from_secs(10),
            max_header_bytes: 32 * 1024,
            write_timeout: Duration::from_secs(60),
            max_connections: 1024,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// Serves until `shutdown` resolves, then until the requests under way have
/// ended or their time is up. A client that goes away drops its handler.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServeLimits,
    shutdown: impl Future<Output = ()>,
) {
    serve_over(None, listener, router, limits, shutdown).await;
}

/// The same over TLS, where there is a certificate: HTTP/2 or HTTP/1.1, as the client
/// likes. Without one it is HTTP/1.1.
pub async fn serve_over(
    tls: Option<Tls>,
    listener: TcpListener,
    router: Router,
    limits: ServeLimits,
    shutdown: impl Future<Output = ()>,
) {
    let slots = Arc::new(Semaphore::new(limits.max_connections));
    let connections = TaskTracker::new();
    let finish = CancellationToken::new();
    let abort = CancellationToken::new();
    let accept = async {
        loop {
            // The semaphore is never closed.
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                return;
            };
            let stream = accept(&listener).await;
            let connection = Connection {
                router: router.clone(),
                limits: limits.clone(),
                finish: finish.clone(),
                abort: abort.clone(),
            };
            let tls = tls.clone();
            connections.spawn(async move {
                connection.serve(stream, tls).await;
                drop(slot);
            });
        }
    };
    tokio::select! {
        () = accept => {}
        () = shutdown => {}
    }
    drop(listener);
    finish.cancel();
    connections.close();
    info!(
        connections = connections.len(),
        "no more connections are taken"
    );
    if timeout(limits.drain_timeout, connections.wait())
        .await
        .is_err()
    {
        warn!(
            connections = connections.len(),
            "ended requests whose time was up"
        );
        abort.cancel();
        connections.wait().await;
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                warn!("failed to accept a connection: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
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

/// What one connection is served with.
struct Connection {
    router: Router,
    limits: ServeLimits,
    finish: CancellationToken,
    abort: CancellationToken,
}

impl Connection {
    async fn serve(self, stream: TcpStream, tls: Option<Tls>) {
        // Small answers must not wait for the client's acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            debug!("failed to set TCP_NODELAY: {error}");
        }
        let stream = StallGuard::new(stream, self.limits.write_timeout);
        let Some(tls) = tls else {
            return self.http1(stream).await;
        };
        let accepted = tokio::select! {
            accepted = timeout(self.limits.header_read_timeout, tls.accept(stream)) => accepted,
            () = self.finish.cancelled() => return,
        };
        match accepted {
            Ok(Ok(stream)) if tls::is_http2(&stream) => self.http2(stream).await,
            Ok(Ok(stream)) => self.http1(stream).await,
            Ok(Err(error)) => debug!("a connection did not begin: {error}"),
            Err(_) => debug!("a connection did not begin in time"),
        }
    }

    async fn http1<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_read_timeout)
            .max_header_size(self.limits.max_header_bytes)
            .serve_connection(
                TokioIo::new(stream),
                TowerToHyperService::new(self.router.clone()),
            );
        let connection = connection.with_upgrades();
        self.drive(connection, |it| it.graceful_shutdown()).await;
    }

    async fn http2<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = Begun::within(self.limits.header_read_timeout, stream);
        let max_header_bytes = u32::try_from(self.limits.max_header_bytes).unwrap_or(u32::MAX);
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(max_header_bytes)
            .serve_connection(
                TokioIo::new(stream),
                TowerToHyperService::new(self.router.clone()),
            );
        self.drive(connection, |it| it.graceful_shutdown()).await;
    }

    async fn drive<C>(self, connection: C, finish: impl FnOnce(Pin<&mut C>))
    where
        C: Future<Output = hyper::Result<()>>,
    {
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.finish.cancelled() => {
                finish(connection.as_mut());
                tokio::select! {
                    ended = connection => ended,
                    () = self.abort.cancelled() => return,
                }
            }
        };
        if let Err(error) = ended {
            debug!("a connection ended: {error}");
        }
    }
}
