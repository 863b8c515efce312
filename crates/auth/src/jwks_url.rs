//! Fetches a set of keys: one GET with a bound on its time and on its answer.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header, uri::Scheme};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

const MAX_ANSWER_BYTES: usize = 1 << 20;
const USER_AGENT: &str = concat!("sandboxd/", env!("CARGO_PKG_VERSION"));

/// Why there is no answer; the text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("an http or https URL is expected")]
    Url,
    #[error("a URL with a user or password is not taken")]
    UserInfo,
    #[error(
        "https is needed, except on loopback: whoever changes the answer on its way could sign tokens"
    )]
    Plain,
    #[error("no certificate authority is known here; install ca-certificates or set SSL_CERT_FILE")]
    NoAuthorities,
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    #[error("no connection")]
    Connect(#[source] io::Error),
    #[error("no answer")]
    Http(#[from] hyper::Error),
    #[error("the answer is {0}, not 200")]
    Status(StatusCode),
    #[error("the answer is cut short, or larger than 1 MiB")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("no answer in time")]
    Slow,
    #[error("the answer is not a set of keys")]
    NotKeys(#[source] serde_json::Error),
}

/// Where a set of keys is fetched from. Redirects are not followed.
pub struct JwksUrl {
    uri: Uri,
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
}

impl JwksUrl {
    pub fn parse(text: &str) -> Result<Self, FetchError> {
        let uri: Uri = text.parse().map_err(|_| FetchError::Url)?;
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(FetchError::Url),
        };
        let authority = uri.authority().ok_or(FetchError::Url)?;
        if authority.as_str().contains('@') {
            return Err(FetchError::UserInfo);
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(FetchError::Url);
        }
        if !secure && !is_loopback(&host) {
            return Err(FetchError::Plain);
        }
        let port = authority
            .port_u16()
            .unwrap_or(if secure { 443 } else { 80 });
        let tls = if secure { Some(connector()?) } else { None };
        Ok(Self {
            uri,
            host,
            port,
            tls,
        })
    }

    pub(crate) async fn fetch(&self, limit: Duration) -> Result<Bytes, FetchError> {
        tokio::time::timeout(limit, self.get())
            .await
            .map_err(|_| FetchError::Slow)?
    }

    async fn get(&self) -> Result<Bytes, FetchError> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(FetchError::Connect)?;
        let Some(tls) = &self.tls else {
            return self.ask(tcp).await;
        };
        let name = ServerName::try_from(self.host.clone()).map_err(|_| FetchError::Url)?;
        let stream = tls.connect(name, tcp).await.map_err(FetchError::Connect)?;
        self.ask(stream).await
    }

    async fn ask(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Bytes, FetchError> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let host = self.uri.authority().map_or("", |it| it.as_str());
        let request = Request::get(path)
            .header(header::HOST, host)
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, "application/json")
            .header(header::CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .map_err(|_| FetchError::Url)?;
        let exchange = async move {
            let answer = sender.send_request(request).await?;
            if answer.status() != StatusCode::OK {
                return Err(FetchError::Status(answer.status()));
            }
            let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES);
            Ok(body.collect().await.map_err(FetchError::Body)?.to_bytes())
        };
        tokio::pin!(exchange);
        // The connection moves only while it is polled; when it is over first,
        // the answer may still be on its way from it.
        tokio::select! {
            biased;
            answer = &mut exchange => answer,
            _ = connection => exchange.await,
        }
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Trusts whom the machine trusts, so that a company's own authority works.
fn connector() -> Result<TlsConnector, FetchError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(FetchError::NoAuthorities);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_over_https_or_from_this_machine() {
        for good in [
            "http://127.0.0.1:1/jwks",
            "http://localhost/jwks",
            "http://[::1]:8080/jwks?x=1",
            "HTTP://127.1.2.3",
        ] {
            assert!(JwksUrl::parse(good).is_ok(), "{good}");
        }
        for plain in [
            "http://example.com/jwks",
            "http://localhost.example.com/",
            "http://127.0.0.1.example.com/",
            "http://10.0.0.1/",
            "http://0.0.0.0/",
        ] {
            assert!(
                matches!(JwksUrl::parse(plain), Err(FetchError::Plain)),
                "{plain}"
            );
        }
        for bad in [
            "",
            "jwks",
            "/jwks",
            "file:///etc/passwd",
            "ftp://localhost/",
            "http://",
        ] {
            assert!(matches!(JwksUrl::parse(bad), Err(FetchError::Url)), "{bad}");
        }
        assert!(matches!(
            JwksUrl::parse("http://user:password@localhost/"),
            Err(FetchError::UserInfo)
        ));
    }
}
