//! The key that signatures are checked with, and the one algorithm that goes with it.

use std::{fmt, str::FromStr};

use jsonwebtoken::DecodingKey;
use rsa::{BigUint, RsaPublicKey, pkcs1::DecodeRsaPublicKey as _, traits::PublicKeyParts as _};
use spki::{ObjectIdentifier, SubjectPublicKeyInfoRef, der::pem};

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
/// RFC 7518, section 3.3.
const MIN_RSA_BITS: usize = 2048;
/// RFC 7518, section 3.2.
pub(crate) const MIN_SECRET_BYTES: usize = 32;
const ED25519_BYTES: usize = 32;

/// What tokens may be signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Hs256,
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    const ALL: [Self; 4] = [Self::Hs256, Self::Rs256, Self::Es256, Self::EdDsa];

    /// As in the header of a token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }

    pub(crate) fn of_tokens(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Hs256 => jsonwebtoken::Algorithm::HS256,
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
            Self::EdDsa => jsonwebtoken::Algorithm::EdDSA,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Algorithm {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.as_str() == text)
            .ok_or(KeyError::Algorithm)
    }
}

/// Why a key cannot check signatures.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("HS256, RS256, ES256 or EdDSA is expected")]
    Algorithm,
    #[error("a public key in PEM is expected (BEGIN PUBLIC KEY)")]
    Pem,
    #[error("this is a private key, the public one is expected")]
    Private,
    #[error("the key is neither RSA, nor P-256, nor Ed25519")]
    Kind,
    #[error("the key is damaged")]
    Damaged,
    #[error("an RSA key needs 2048 to 4096 bits")]
    Size,
    #[error("HS256 needs a secret of 32 bytes or more (RFC 7518, 3.2)")]
    Secret,
    #[error("this is a key in PEM, not a secret: whoever knows it could sign; use jwt_public_key")]
    SecretIsPem,
}

/// A key whose kind says the algorithm.
pub struct VerifyingKey {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl VerifyingKey {
    /// For HS256.
    pub fn from_secret(secret: &str) -> Result<Self, KeyError> {
        if secret.trim_start().starts_with("-----BEGIN") {
            return Err(KeyError::SecretIsPem);
        }
        if secret.len() < MIN_SECRET_BYTES {
            return Err(KeyError::Secret);
        }
        Ok(Self {
            algorithm: Algorithm::Hs256,
            key: DecodingKey::from_secret(secret.as_bytes()),
        })
    }

    /// A public key: SubjectPublicKeyInfo, or PKCS#1 for RSA.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let (label, der) = pem::decode_vec(text.trim().as_bytes()).map_err(|_| KeyError::Pem)?;
        match label {
            "PUBLIC KEY" => Self::from_public_key_info(&der),
            "RSA PUBLIC KEY" => Self::from_pkcs1(&der),
            label if label.ends_with("PRIVATE KEY") => Err(KeyError::Private),
            _ => Err(KeyError::Pem),
        }
    }

    fn from_pkcs1(der: &[u8]) -> Result<Self, KeyError> {
        Self::rsa(&RsaPublicKey::from_pkcs1_der(der).map_err(|_| KeyError::Damaged)?)
    }

    fn from_public_key_info(der: &[u8]) -> Result<Self, KeyError> {
        let info = SubjectPublicKeyInfoRef::try_from(der).map_err(|_| KeyError::Damaged)?;
        let bytes = info
            .subject_public_key
            .as_bytes()
            .ok_or(KeyError::Damaged)?;
        match info.algorithm.oid {
            RSA => Self::from_pkcs1(bytes),
            EC => {
                if info.algorithm.parameters_oid() != Ok(P256) {
                    return Err(KeyError::Kind);
                }
                Self::p256(bytes)
            }
            ED25519 => Self::ed25519(bytes),
            _ => Err(KeyError::Kind),
        }
    }

    /// Big-endian numbers, as in a JWK.
    pub(crate) fn from_rsa_numbers(n: &[u8], e: &[u8]) -> Result<Self, KeyError> {
        let (n, e) = (BigUint::from_bytes_be(n), BigUint::from_bytes_be(e));
        if n.bits() > RsaPublicKey::MAX_SIZE {
            return Err(KeyError::Size);
        }
        Self::rsa(&RsaPublicKey::new(n, e).map_err(|_| KeyError::Damaged)?)
    }

    fn rsa(key: &RsaPublicKey) -> Result<Self, KeyError> {
        if key.n().bits() < MIN_RSA_BITS {
            return Err(KeyError::Size);
        }
        let (n, e) = (key.n().to_bytes_be(), key.e().to_bytes_be());
        Self::checked(
            Algorithm::Rs256,
            DecodingKey::from_rsa_raw_components(&n, &e),
        )
    }

    /// A point of the curve as in SEC 1.
    pub(crate) fn p256(point: &[u8]) -> Result<Self, KeyError> {
        Self::checked(Algorithm::Es256, DecodingKey::from_ec_der(point))
    }

    pub(crate) fn ed25519(bytes: &[u8]) -> Result<Self, KeyError> {
        // jsonwebtoken panics at a shorter key.
        if bytes.len() != ED25519_BYTES {
            return Err(KeyError::Damaged);
        }
        Self::checked(Algorithm::EdDsa, DecodingKey::from_ed_der(bytes))
    }

    /// Finds out at the start, not at the first token, whether the key is one.
    fn checked(algorithm: Algorithm, key: DecodingKey) -> Result<Self, KeyError> {
        jsonwebtoken::crypto::verify("", b"", &key, algorithm.of_tokens())
            .map_err(|_| KeyError::Damaged)?;
        Ok(Self { algorithm, key })
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn key(&self) -> &DecodingKey {
        &self.key
    }
}
