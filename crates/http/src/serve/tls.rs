//! TLS of a listener: its certificate, and what is spoken over it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// A certificate and its key; a clone is the same.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

/// Why a certificate or key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("failed to read a certificate or key of `{path}`")]
    Pem { path: PathBuf, source: pem::Error },
    #[error("`{path}` has no certificate")]
    NoCertificate { path: PathBuf },
    #[error("the certificate and the key do not go together")]
    Unfit(#[from] rustls::Error),
}

impl Tls {
    /// Of a chain, the server's own certificate first, and its private key; both PEM.
    pub fn from_files(chain: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::Pem { path, source }
        };
        let certificates = CertificateDer::pem_file_iter(chain)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(read(chain))?;
        if certificates.is_empty() {
            return Err(TlsError::NoCertificate {
                path: chain.to_owned(),
            });
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(read(key))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)?;
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.0.accept(stream).await
    }
}

/// Whether both sides chose HTTP/2.
pub(super) fn is_http2<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}
