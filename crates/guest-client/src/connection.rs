//! The connection and its life.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use connectrpc::client::{BoxFuture, ClientBody, ClientConfig, ClientTransport, full_body};
use http::{Request, Response, StatusCode, Uri};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sandbox_core::{Error, ErrorCode, Result};
use sandbox_wire::{
    process::ProcessClient,
    sandbox::v1::{CodeClient, ContextsClient, LifeClient, SearchClient, WorkspaceClient},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};

/// Largest single message taken from a guest: a /write body or a search answer.
const MAX_MESSAGE_BYTES: usize = 80 * 1024 * 1024;
/// What may be under way of one stream, and of all of them, before the guest waits.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
/// Room for many stalled streams: one whose client does not read must not stop the others.
const CONNECTION_WINDOW_BYTES: u32 = 512 * STREAM_WINDOW_BYTES;

const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// Long, for a sandbox may have used up its share of the processors.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(120);

/// What the guest learns when its sandbox starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestConfig {
    /// Added to the environment of every run.
    pub env: BTreeMap<String, String>,
}

/// A clone is the same connection.
#[derive(Clone)]
pub struct GuestClient {
    pub(crate) code: CodeClient<Transport>,
    pub(crate) contexts: ContextsClient<Transport>,
    pub(crate) life: LifeClient<Transport>,
    pub(crate) process: ProcessClient<Transport>,
    pub(crate) search: SearchClient<Transport>,
    pub(crate) workspace: WorkspaceClient<Transport>,
    pub(crate) transport: Transport,
    closed: watch::Receiver<bool>,
}

#[derive(Clone)]
pub(crate) struct Transport(http2::SendRequest<ClientBody>);

impl ClientTransport for Transport {
    type ResponseBody = Incoming;
    type Error = hyper::Error;

    fn send(
        &self,
        request: Request<ClientBody>,
    ) -> BoxFuture<'static, Result<Response<Incoming>, hyper::Error>> {
        let mut connection = self.0.clone();
        Box::pin(async move {
            connection.ready().await?;
            connection.send_request(request).await
        })
    }
}

impl GuestClient {
    /// Speaks to a guest over `io`, which is closed when the last clone is gone.
    pub async fn connect<S>(io: S) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self::speak(http2::Builder::new(TokioExecutor::new()), io).await
    }

    /// The same over a way that may go silent without an end: the guest hears from
    /// us every so often, and is given up when it does not answer.
    pub async fn connect_afar<S>(io: S) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        Self::speak(builder, io).await
    }

    async fn speak<S>(mut builder: http2::Builder<TokioExecutor>, io: S) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = builder
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(64 * 1024)
            .handshake(TokioIo::new(io))
            .await
            .map_err(lost)?;
        let (ended, closed) = watch::channel(false);
        // Ends with the connection, and the connection with its last sender.
        tokio::spawn(async move {
            let _ = connection.await;
            let _ = ended.send(true);
        });
        let transport = Transport(sender);
        let config = ClientConfig::new(Uri::from_static("http://guest"))
            .proto()
            .with_default_max_message_size(MAX_MESSAGE_BYTES)
            .with_default_element_memory_limit(2 * MAX_MESSAGE_BYTES);
        Ok(Self {
            code: CodeClient::new(transport.clone(), config.clone()),
            contexts: ContextsClient::new(transport.clone(), config.clone()),
            life: LifeClient::new(transport.clone(), config.clone()),
            process: ProcessClient::new(transport.clone(), config.clone()),
            search: SearchClient::new(transport.clone(), config.clone()),
            workspace: WorkspaceClient::new(transport.clone(), config),
            transport,
            closed,
        })
    }

    /// Whether the guest answers.
    pub async fn health(&self) -> Result<()> {
        let request = Request::get("http://guest/health")
            .body(full_body(Bytes::new()))
            .map_err(Error::internal)?;
        self.expect_no_content(request).await
    }

    /// Hands the guest its configuration.
    pub async fn init(&self, config: &GuestConfig) -> Result<()> {
        let body = serde_json::json!({ "envVars": config.env }).to_string();
        let request = Request::post("http://guest/init")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(full_body(body.into()))
            .map_err(Error::internal)?;
        self.expect_no_content(request).await
    }

    async fn expect_no_content(&self, request: Request<ClientBody>) -> Result<()> {
        let response = self.transport.send(request).await.map_err(lost)?;
        match response.status() {
            StatusCode::NO_CONTENT => Ok(()),
            status => Err(Error::internal(format!("the guest answered {status}"))),
        }
    }

    /// Whether the connection is at its end.
    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Resolves when the connection has ended.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closed = self.closed.clone();
        async move {
            // An error means the connection's task is gone, which is the same.
            let _ = closed.wait_for(|closed| *closed).await;
        }
    }

    /// Waits for a guest that has just been started.
    pub async fn ready_within(&self, limit: Duration) -> Result<()> {
        tokio::time::timeout(limit, self.health())
            .await
            .map_err(|_| {
                Error::new(
                    ErrorCode::BackendUnavailable,
                    "the sandbox did not start in time",
                )
            })?
    }
}

pub(crate) fn lost(error: hyper::Error) -> Error {
    Error::new(ErrorCode::SandboxLost, "the sandbox ended").with_source(error)
}
