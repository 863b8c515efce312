//! The daemon behind the gate.
//!
//! Each call has a connection of its own, so that what one leaves behind on it can
//! never be read as the answer to another.

use std::{path::PathBuf, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::UnixStream, time::timeout};
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::{
    call::Patience,
    refusal::{Refusal, Result},
};

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Until an answer begins. To remove a container takes the daemon its time.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// Of an answer that the gate reads itself.
const READ_LIMIT: Duration = Duration::from_secs(10);
const MAX_READ: usize = 4 * 1024 * 1024;

pub type Body = UnsyncBoxBody<Bytes, hyper::Error>;

#[derive(Clone)]
pub struct Upstream {
    socket: PathBuf,
    connections: TaskTracker,
}

/// What an answer that was read whole says.
pub struct Answer {
    pub status: StatusCode,
    pub body: Bytes,
}

impl Upstream {
    pub fn new(socket: PathBuf, connections: TaskTracker) -> Self {
        Self {
            socket,
            connections,
        }
    }

    /// Sends a request whose every part is of the gate's own making.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content: Content,
        patience: Patience,
    ) -> Result<Response<Incoming>> {
        let uri: Uri = path
            .parse()
            .map_err(|_| Refusal::malformed("the path is no path"))?;
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::HOST, "docker");
        let body = match content {
            Content::None => full(Bytes::new()),
            Content::Json(value) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                full(value.to_string().into())
            }
            Content::Archive(pieces) => {
                let size: usize = pieces.iter().map(Bytes::len).sum();
                request = request
                    .header(header::CONTENT_TYPE, "application/x-tar")
                    .header(header::CONTENT_LENGTH, HeaderValue::from(size));
                let frames = pieces.into_iter().map(|piece| Ok(Frame::data(piece)));
                StreamBody::new(futures::stream::iter(frames)).boxed_unsync()
            }
            Content::Upgrade => {
                request = request
                    .header(header::CONNECTION, "Upgrade")
                    .header(header::UPGRADE, "tcp");
                full(Bytes::new())
            }
        };
        let request = request
            .body(body)
            .map_err(|_| Refusal::malformed("the request cannot be written"))?;
        let answer = self.connect_and_send(request);
        match patience {
            Patience::Endless => answer.await,
            Patience::Short => timeout(ANSWER_LIMIT, answer).await.unwrap_or_else(|_| {
                let status = StatusCode::GATEWAY_TIMEOUT;
                Err(Refusal::new(
                    status,
                    "the Docker daemon did not answer in time",
                ))
            }),
        }
    }

    async fn connect_and_send(&self, request: Request<Body>) -> Result<Response<Incoming>> {
        let away = || Refusal::upstream("the Docker daemon cannot be reached");
        let stream = match timeout(CONNECT_LIMIT, UnixStream::connect(&self.socket)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let socket = self.socket.display();
                warn!("failed to connect to the Docker daemon at `{socket}`: {error}");
                return Err(away());
            }
            Err(_) => return Err(away()),
        };
        let (mut sender, connection) = http1::handshake::<_, Body>(TokioIo::new(stream))
            .await
            .map_err(|_| away())?;
        // It ends when the answer was read or dropped, or with what it was upgraded to.
        self.connections.spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                debug!("a connection to the Docker daemon ended: {error}");
            }
        });
        sender.send_request(request).await.map_err(|error| {
            warn!("the Docker daemon did not answer: {error}");
            Refusal::upstream("the Docker daemon did not answer")
        })
    }

    /// An answer that the gate itself looks at.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        let answer = self
            .send(Method::GET, path, Content::None, Patience::Short)
            .await?;
        read(answer).await
    }
}

/// The whole of an answer.
pub async fn read(answer: Response<Incoming>) -> Result<Answer> {
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_READ).collect();
    match timeout(READ_LIMIT, body).await {
        Ok(Ok(body)) => Ok(Answer {
            status,
            body: body.to_bytes(),
        }),
        _ => Err(Refusal::upstream(
            "the Docker daemon's answer cannot be read",
        )),
    }
}

impl Answer {
    pub fn json(&self) -> Result<Value> {
        // The daemon's own, and not looked through like a caller's: labels of an image
        // may well differ in case alone.
        serde_json::from_slice(&self.body)
            .map_err(|_| Refusal::upstream("the Docker daemon's answer is not JSON"))
    }

    /// The daemon's own words, for an answer that is an error.
    pub fn message(&self) -> String {
        let value: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        value["message"]
            .as_str()
            .unwrap_or("the Docker daemon refuses")
            .to_owned()
    }
}

/// What a request carries.
pub enum Content {
    None,
    Json(Value),
    Archive(Vec<Bytes>),
    /// Nothing; what follows the answer is a stream.
    Upgrade,
}

pub fn full(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync()
}
