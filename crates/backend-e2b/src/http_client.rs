//! One HTTP client for all: the control plane, envd, and ports of sandboxes.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use connectrpc::client::{BoxFuture, ClientBody, ClientTransport};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore};
use tokio::{net::TcpStream, time::timeout};
use tower::Service as _;

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// Largest answer that is read at once: a page of a list.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// A clone is the same client.
#[derive(Clone)]
pub(crate) struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, ClientBody>,
    connector: HttpsConnector<HttpConnector>,
}

/// Without an answer, whole or in part.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error("there is no such request")]
    Request(#[source] http::Error),
    #[error("no answer")]
    Http(#[source] Error),
    #[error("the answer is cut short, or larger than 8 MiB")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("no answer in time")]
    Slow,
}

pub(crate) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A connection to a port of a sandbox.
pub(crate) type Stream = TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>;

impl HttpClient {
    pub fn new() -> io::Result<Self> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_LIMIT));
        http.set_keepalive(Some(IDLE_LIMIT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls()?)
            .https_or_http()
            // No proxy on the way speaks less, and a WebSocket needs no more.
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_LIMIT)
            .build(connector.clone());
        Ok(Self { client, connector })
    }

    /// The whole answer, whatever it is.
    pub async fn ask(
        &self,
        request: Request<ClientBody>,
        limit: Duration,
    ) -> Result<Answer, Failed> {
        let exchange = async {
            let answer = self.client.request(request).await.map_err(Failed::Http)?;
            let (parts, body) = answer.into_parts();
            let body = Limited::new(body, MAX_ANSWER_BYTES).collect();
            Ok(Answer {
                status: parts.status,
                headers: parts.headers,
                body: body.await.map_err(Failed::Body)?.to_bytes(),
            })
        };
        timeout(limit, exchange).await.map_err(|_| Failed::Slow)?
    }

    /// A connection of one's own, for what is no request and answer.
    pub async fn connect(&self, uri: Uri) -> io::Result<Stream> {
        let mut connector = self.connector.clone();
        let connecting = connector.call(uri);
        let stream = timeout(CONNECT_LIMIT, connecting).await?;
        Ok(TokioIo::new(stream.map_err(io::Error::other)?))
    }

    pub fn with(&self, headers: HeaderMap) -> WithHeaders {
        WithHeaders {
            client: self.clone(),
            headers: Arc::new(headers),
        }
    }
}

/// Sends calls of envd, with what says which sandbox is meant.
#[derive(Clone)]
pub(crate) struct WithHeaders {
    client: HttpClient,
    headers: Arc<HeaderMap>,
}

impl WithHeaders {
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub fn client(&self) -> &HttpClient {
        &self.client
    }
}

impl ClientTransport for WithHeaders {
    type ResponseBody = Incoming;
    type Error = Error;

    fn send(
        &self,
        mut request: Request<ClientBody>,
    ) -> BoxFuture<'static, Result<Response<Incoming>, Error>> {
        for (name, value) in self.headers.iter() {
            request.headers_mut().insert(name.clone(), value.clone());
        }
        let client = self.client.client.clone();
        Box::pin(async move { client.request(request).await })
    }
}

/// Trusts whom the machine trusts, so that a company's own authority works.
fn tls() -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    // Without any, https fails where it is used, and says so; loopback needs none.
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
