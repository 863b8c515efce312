//! Connections to what listens inside the sandbox.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use connectrpc::{
    ConnectError,
    client::{ClientTransport as _, full_body},
};
use futures::{Stream, TryStreamExt as _, stream};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use sandbox_core::{Error, ErrorCode};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
};
use tokio_util::{io::StreamReader, sync::PollSender};

use crate::{
    GuestClient,
    connection::{Transport, lost},
};

type Output = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Most that is copied at once of what somebody writes.
const WRITE_BYTES: usize = 64 * 1024;
/// For a call that should take milliseconds.
const BREAK_OFF_LIMIT: Duration = Duration::from_secs(10);

/// Why a port could not be opened.
#[derive(Clone, Debug)]
pub enum PortError {
    /// Nothing listens there; the sandbox is well.
    NotOpen,
    /// Something listens there, and did not accept the connection in time.
    Silent,
    /// The sandbox has as many connections as it may have.
    TooMany,
    /// The sandbox is gone, or answered what it should not.
    Sandbox(Error),
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOpen => "port is not open",
            Self::Silent => "the port did not accept the connection in time",
            Self::TooMany => "too many connections to ports are open",
            Self::Sandbox(_) => "the port cannot be reached",
        })
    }
}

impl std::error::Error for PortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Sandbox(error) => Some(error),
            _ => None,
        }
    }
}

/// A TCP connection to a program in the sandbox.
///
/// Each way has an end of its own: `shutdown` says that no more comes, a read of
/// nothing that the program has said so. Both ways have flow control. Dropped, it
/// is closed; that the program, or the sandbox, has gone is an error.
pub struct PortStream {
    output: StreamReader<Output, Bytes>,
    has_ended: bool,
    input: PollSender<Result<Bytes, ConnectError>>,
    transport: Transport,
    /// Where it is broken off.
    path: String,
}

impl GuestClient {
    /// Connects to a port of the sandbox's loopback, IPv4 before IPv6.
    ///
    /// [`PortError::NotOpen`] says that nothing listens there, which is no fault of
    /// the sandbox's. The caller bounds the time.
    pub async fn open_port(&self, port: u16) -> Result<PortStream, PortError> {
        let (sender, mut receiver) = mpsc::channel(1);
        let frames = stream::poll_fn(move |context| receiver.poll_recv(context));
        let body = StreamBody::new(frames.map_ok(Frame::data)).boxed();
        let request = Request::post(format!("http://guest/ports/{port}"))
            .body(body)
            .map_err(|cause| PortError::Sandbox(Error::internal(cause)))?;
        let answer = self.transport.send(request).await;
        let answer = answer.map_err(|cause| PortError::Sandbox(lost(cause)))?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::BAD_GATEWAY | StatusCode::BAD_REQUEST => return Err(PortError::NotOpen),
            StatusCode::GATEWAY_TIMEOUT => return Err(PortError::Silent),
            StatusCode::SERVICE_UNAVAILABLE => return Err(PortError::TooMany),
            status => {
                return Err(PortError::Sandbox(Error::new(
                    ErrorCode::Internal,
                    format!("the guest answered {status}"),
                )));
            }
        }
        let name = answer.headers().get("sandbox-connection");
        let name = name.and_then(|name| name.to_str().ok()).unwrap_or_default();
        let path = format!("http://guest/ports/{port}/{name}");
        let output = answer.into_body().into_data_stream();
        let output: Output = Box::pin(output.map_err(reset));
        Ok(PortStream {
            output: StreamReader::new(output),
            has_ended: false,
            input: PollSender::new(sender),
            transport: self.transport.clone(),
            path,
        })
    }
}

impl Drop for PortStream {
    fn drop(&mut self) {
        if self.has_ended && self.input.is_closed() {
            return;
        }
        // HTTP/2 does not tell that we have gone while bytes of ours wait for room.
        let body = full_body(Bytes::new());
        let Ok(request) = Request::delete(&self.path).body(body) else {
            return;
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let sent = self.transport.send(request);
            runtime.spawn(async { tokio::time::timeout(BREAK_OFF_LIMIT, sent).await });
        }
    }
}

fn reset(cause: hyper::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, cause)
}

impl AsyncRead for PortStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (room, before) = (buffer.remaining(), buffer.filled().len());
        ready!(Pin::new(&mut self.output).poll_read(context, buffer))?;
        if room > 0 && buffer.filled().len() == before {
            self.has_ended = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        ready!(self.input.poll_reserve(context)).map_err(gone)?;
        let part = &data[..data.len().min(WRITE_BYTES)];
        let sent = self.input.send_item(Ok(Bytes::copy_from_slice(part)));
        Poll::Ready(sent.map(|()| part.len()).map_err(gone))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.close();
        Poll::Ready(Ok(()))
    }
}
