//! How a service reaches a guest that is not its sandbox's init and has no descriptor of
//! the service's: over a WebSocket, which proxies pass where they pass no other stream.
//!
//! The guest reads [`MAX_TOKEN`] bytes at most from standard input, up to a line's end:
//! the token that whoever connects must show as [`TOKEN_HEADER`]. It says [`LISTENING`]
//! on standard output when it listens.

use std::io;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _, future};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Error, Message, protocol::WebSocketConfig},
};
use tokio_util::io::{CopyToBytes, SinkWriter, StreamReader};

pub const TOKEN_HEADER: &str = "x-guest-token";
pub const MAX_TOKEN: usize = 256;
pub const LISTENING: &[u8] = b"sandbox-guest listening\n";
/// Larger than what either side sends at once.
const MAX_FRAME_BYTES: usize = 1 << 20;

/// What both sides take: frames of a bounded size, for the other may be anybody's.
pub fn websocket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MAX_FRAME_BYTES))
        .max_frame_size(Some(MAX_FRAME_BYTES))
}

/// The bytes of a WebSocket's binary messages, whose bounds mean nothing.
pub fn bytes_of<S>(
    socket: WebSocketStream<S>,
) -> impl AsyncRead + AsyncWrite + Send + Unpin + 'static
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sink, stream) = socket.split();
    let read = stream.filter_map(|message| {
        future::ready(match message {
            Ok(Message::Binary(bytes)) => Some(Ok(bytes)),
            // Answered where the socket is read; the stream ends after the last one.
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Close(_)) => None,
            Ok(Message::Text(_) | Message::Frame(_)) => Some(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message that is not binary",
            ))),
            Err(error) => Some(Err(failed(error))),
        })
    });
    let write = sink
        .sink_map_err(failed)
        .with(|bytes: Bytes| future::ok::<_, io::Error>(Message::Binary(bytes)));
    tokio::io::join(
        StreamReader::new(read),
        SinkWriter::new(CopyToBytes::new(write)),
    )
}

fn failed(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::BrokenPipe.into(),
        other => io::Error::other(other),
    }
}
