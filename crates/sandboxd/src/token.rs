//! `sandboxd token`: a JWT for development.

use std::{error::Error, fs, path::Path};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use pkcs8::{ObjectIdentifier, PrivateKeyInfo, der::pem};
use sandbox_core::{Clock as _, SystemClock, TenantId};
use serde_json::{Value, json};

use crate::{cli::Token, settings::Settings};

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

pub fn print(settings: &Settings, wanted: &Token) -> Result<(), Box<dyn Error>> {
    println!("{}", mint(settings, wanted)?);
    Ok(())
}

fn mint(settings: &Settings, wanted: &Token) -> Result<String, Box<dyn Error>> {
    let (algorithm, key) = match &wanted.key {
        Some(path) => private_key(path)?,
        None if settings.jwt_secret.is_empty() => {
            return Err(
                "neither jwt_secret (SANDBOX_JWT_SECRET) nor --key is given to sign with".into(),
            );
        }
        None => (
            Algorithm::HS256,
            EncodingKey::from_secret(settings.jwt_secret.as_bytes()),
        ),
    };
    for tenant in &wanted.tenant {
        tenant.parse::<TenantId>()?;
    }
    let now = SystemClock.now();
    let mut claims = json!({
        "sub": wanted.subject,
        "iat": now.0 / 1000,
        "exp": now.plus(wanted.ttl).0 / 1000,
    });
    match wanted.tenant.as_slice() {
        [] => claims["tenants"] = json!(["*"]),
        [tenant] => claims["tenant_id"] = json!(tenant),
        tenants => claims["tenants"] = json!(tenants),
    }
    if wanted.admin {
        claims["role"] = json!("admin");
    }
    for (claim, value) in [
        ("aud", &settings.jwt_audience),
        ("iss", &settings.jwt_issuer),
    ] {
        if !value.is_empty() {
            claims[claim] = Value::from(value.as_str());
        }
    }
    let header = Header {
        kid: wanted.kid.clone(),
        ..Header::new(algorithm)
    };
    Ok(encode(&header, &claims, &key)?)
}

/// A private key, and the algorithm that goes with its kind.
fn private_key(path: &Path) -> Result<(Algorithm, EncodingKey), Box<dyn Error>> {
    let text =
        fs::read(path).map_err(|error| format!("failed to read `{}`: {error}", path.display()))?;
    let (label, der) = pem::decode_vec(text.trim_ascii())
        .map_err(|_| format!("`{}` is not a key in PEM", path.display()))?;
    if label != "PRIVATE KEY" {
        return Err(format!("`{}` is not a private key in PKCS#8", path.display()).into());
    }
    let info = PrivateKeyInfo::try_from(der.as_slice())
        .map_err(|_| format!("the key in `{}` is damaged", path.display()))?;
    match info.algorithm.oid {
        RSA => Ok((
            Algorithm::RS256,
            EncodingKey::from_rsa_der(info.private_key),
        )),
        EC => Ok((Algorithm::ES256, EncodingKey::from_ec_der(&der))),
        ED25519 => Ok((Algorithm::EdDSA, EncodingKey::from_ed_der(&der))),
        _ => Err("the key is neither RSA, nor P-256, nor Ed25519".into()),
    }
}
