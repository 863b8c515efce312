//! A certificate and its key as files have them, and when it expires.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustls::{
    CertificateError, RootCertStore,
    client::verify_server_cert_signed_by_trust_anchor,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem, pem::PemObject as _},
    server::ParsedCertificate,
    sign::CertifiedKey,
};
use sandbox_core::Timestamp;

/// Why a certificate or key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("failed to read `{path}`")]
    Unreadable { path: PathBuf, source: io::Error },
    // Without the parser's words: they quote the line that they do not like, which may be a key.
    #[error("`{path}` has no {wanted}, or is not PEM")]
    NotThere { path: PathBuf, wanted: &'static str },
    #[error("the certificate and the key cannot be used together")]
    Unfit(#[source] rustls::Error),
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

pub(super) fn read(chain: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| not_there(chain, "certificate", error))?;
    if certificates.is_empty() {
        return Err(not_there(chain, "certificate", pem::Error::NoItemsFound));
    }
    let key =
        PrivateKeyDer::from_pem_file(key).map_err(|error| not_there(key, "private key", error))?;
    CertifiedKey::from_der(certificates, key, &provider()).map_err(TlsError::Unfit)
}

fn not_there(path: &Path, wanted: &'static str, error: pem::Error) -> TlsError {
    let path = path.to_owned();
    match error {
        pem::Error::Io(source) => TlsError::Unreadable { path, source },
        _ => TlsError::NotThere { path, wanted },
    }
}

/// There is no other way to ask rustls: at the end of time every certificate has expired,
/// and the refusal says since when. It is the first that is looked at.
pub(super) fn expires(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let refused = verify_server_cert_signed_by_trust_anchor(
        &ParsedCertificate::try_from(certificate).ok()?,
        &RootCertStore::empty(),
        &[],
        UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX)),
        provider().signature_verification_algorithms.all,
    );
    match refused {
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext {
            not_after,
            ..
        })) => Some(Timestamp(
            i64::try_from(not_after.as_secs())
                .ok()?
                .saturating_mul(1000),
        )),
        _ => None,
    }
}
