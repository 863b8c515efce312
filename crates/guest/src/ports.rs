//! `POST /ports/{port}`: bytes to a TCP port inside the sandbox and back.
//!
//! ```text
//! request body  ──> socket      its end ──> shutdown(SHUT_WR)
//! response body <── socket      its end ──> the last frame; a reset ──> a reset
//! ```
//!
//! Each way has flow control and an end of its own. The answer's header names the
//! connection, and `DELETE /ports/{port}/{connection}` breaks it off: a caller whose
//! bytes nobody takes has no other way to say that it has gone. Nothing but the sandbox's own
//! loopback can be reached, so no address is ever a caller's.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{TryStreamExt as _, stream};
use http::{HeaderName, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use tokio::{
    io::AsyncWriteExt as _,
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::{io::ReaderStream, sync::CancellationToken};

use crate::rest::{Answer, empty, refusal};

/// Names the connection in the answer.
const CONNECTION_HEADER: HeaderName = HeaderName::from_static("sandbox-connection");
/// Connections at once: half of the streams that the service may have with us, so
/// that runs and files find a place whatever is open.
const MAX_CONNECTIONS: usize = 256;
/// A server whose queue of connections is full does not answer at all.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const READ_BYTES: usize = 32 * 1024;

type Open = Arc<Mutex<HashMap<u64, CancellationToken>>>;

/// Open connections, by their names.
pub(crate) struct Ports {
    room: Arc<Semaphore>,
    open: Open,
    next: AtomicU64,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            open: Open::default(),
            next: AtomicU64::new(1),
        }
    }
}

/// Answers a request for `/ports/{target}`.
pub(crate) async fn handle(ports: &Ports, target: &str, request: Request<Incoming>) -> Answer {
    let (port, connection) = match target.split_once('/') {
        None => (target, None),
        Some((port, connection)) => (port, Some(connection)),
    };
    let Some(port) = number(port).filter(|port| *port != 0) else {
        return refusal(
            StatusCode::BAD_REQUEST,
            "a port is a number from 1 to 65535",
        );
    };
    match (request.method(), connection) {
        (&Method::POST, None) => ports.open(port, request.into_body()).await,
        (&Method::DELETE, Some(connection)) => {
            let open = ports.open.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(broken_off) = number(connection).and_then(|name: u64| open.get(&name)) {
                broken_off.cancel();
            }
            empty(StatusCode::NO_CONTENT)
        }
        _ => refusal(StatusCode::METHOD_NOT_ALLOWED, "a port is opened by POST"),
    }
}

impl Ports {
    async fn open(&self, port: u16, body: Incoming) -> Answer {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            return refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many connections to ports are open",
            );
        };
        match timeout(CONNECT_LIMIT, connect(port)).await {
            Ok(Some(stream)) => self.join(stream, body, permit),
            Ok(None) => refusal(StatusCode::BAD_GATEWAY, "port is not open"),
            Err(_) => refusal(
                StatusCode::GATEWAY_TIMEOUT,
                "the port did not accept the connection in time",
            ),
        }
    }

    fn join(&self, socket: TcpStream, body: Incoming, permit: OwnedSemaphorePermit) -> Answer {
        let (from_program, to_program) = socket.into_split();
        let name = self.next.fetch_add(1, Ordering::Relaxed);
        let broken_off = CancellationToken::new();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(name, broken_off.clone());
        let connection = Arc::new(Connection {
            name,
            broken_off,
            open: Arc::clone(&self.open),
            _permit: permit,
        });
        tokio::spawn(pass_on(body, to_program, Arc::clone(&connection)));
        let reading = Reading {
            output: ReaderStream::with_capacity(from_program, READ_BYTES),
            has_ended: false,
            connection,
        };
        let frames = stream::try_unfold(reading, Reading::next);
        let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
        answer.headers_mut().insert(CONNECTION_HEADER, name.into());
        answer
    }
}

/// Unlike `parse` it takes no sign.
fn number<T: FromStr>(text: &str) -> Option<T> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

async fn connect(port: u16) -> Option<TcpStream> {
    let addresses: [SocketAddr; 2] = [
        (Ipv4Addr::LOCALHOST, port).into(),
        (Ipv6Addr::LOCALHOST, port).into(),
    ];
    for address in addresses {
        if let Ok(stream) = TcpStream::connect(address).await {
            // Somebody waits for every small answer.
            let _ = stream.set_nodelay(true);
            return Some(stream);
        }
    }
    None
}

/// Kept by both ways, and gone with them.
struct Connection {
    name: u64,
    broken_off: CancellationToken,
    open: Open,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(&self.name);
    }
}

/// What the program says.
struct Reading {
    output: ReaderStream<OwnedReadHalf>,
    has_ended: bool,
    connection: Arc<Connection>,
}

impl Reading {
    async fn next(mut self) -> io::Result<Option<(Frame<Bytes>, Self)>> {
        let broken_off = self.connection.broken_off.clone();
        let next = tokio::select! {
            next = self.output.try_next() => next?,
            () = broken_off.cancelled() => return Err(io::ErrorKind::ConnectionAborted.into()),
        };
        self.has_ended = next.is_none();
        Ok(next.map(|data| (Frame::data(data), self)))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // Nobody reads any more, or the program has broken it off.
        if !self.has_ended {
            self.connection.broken_off.cancel();
        }
    }
}

/// Until the caller has no more to say or has gone, or the program does not listen.
async fn pass_on(mut body: Incoming, to_program: OwnedWriteHalf, connection: Arc<Connection>) {
    tokio::select! {
        () = write_all(&mut body, to_program) => return,
        () = connection.broken_off.cancelled() => {}
    }
    // The stream is reset when what the caller has sent before it went has room.
    while let Some(Ok(_)) = body.frame().await {}
}

async fn write_all(body: &mut Incoming, mut to_program: OwnedWriteHalf) {
    while let Some(frame) = body.frame().await {
        // Without a good end of the body there is none to pass on.
        let Ok(frame) = frame else { return };
        if let Ok(data) = frame.into_data()
            && to_program.write_all(&data).await.is_err()
        {
            return;
        }
    }
    let _ = to_program.shutdown().await;
}
