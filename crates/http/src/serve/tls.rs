//! TLS of a listener: its certificate, which may be renewed, and what is spoken over it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    ServerConfig,
    sign::{CertifiedKey, SingleCertAndKey},
};
use sandbox_core::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::certificate::{TlsError, expires, provider, read};

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// A certificate and its key; a clone is the same, also after they were renewed.
#[derive(Clone)]
pub struct Tls(Arc<Inner>);

struct Inner {
    chain: PathBuf,
    key: PathBuf,
    now: RwLock<Now>,
}

/// What new connections are made with.
#[derive(Clone)]
struct Now {
    acceptor: TlsAcceptor,
    shown: Arc<CertifiedKey>,
}

impl Tls {
    /// Of a chain, the server's own certificate first, and its private key; both PEM.
    pub fn from_files(chain: &Path, key: &Path) -> Result<Self, TlsError> {
        let now = Now::with(read(chain, key)?)?;
        Ok(Self(Arc::new(Inner {
            chain: chain.to_owned(),
            key: key.to_owned(),
            now: RwLock::new(now),
        })))
    }

    /// Reads the files again, and says whether another pair was in them, which is for all
    /// connections from now on. After an error it is what it was. Blocks.
    pub fn read_again(&self) -> Result<bool, TlsError> {
        let found = read(&self.0.chain, &self.0.key)?;
        // A key goes with its certificate, so the certificates tell.
        if found.cert == self.now().shown.cert {
            return Ok(false);
        }
        let now = Now::with(found)?;
        *self.0.now.write().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(true)
    }

    /// When its certificate expires, where that can be told.
    pub fn expires(&self) -> Option<Timestamp> {
        expires(self.now().shown.end_entity_cert().ok()?)
    }

    fn now(&self) -> Now {
        let now = self.0.now.read();
        now.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = self.now().acceptor;
        acceptor.accept(stream).await
    }
}

impl Now {
    /// A configuration of its own, for that has the sessions which clients may resume: they
    /// would go by the certificate of before.
    fn with(shown: CertifiedKey) -> Result<Self, TlsError> {
        let shown = Arc::new(shown);
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unfit)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&shown))));
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            shown,
        })
    }
}

/// Whether both sides chose HTTP/2.
pub(super) fn is_http2<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}
