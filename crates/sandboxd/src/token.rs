//! `sandboxd token`: a JWT for development.

use std::error::Error;

use jsonwebtoken::{EncodingKey, Header, encode};
use sandbox_core::{Clock as _, SystemClock, TenantId};
use serde_json::{Value, json};

use crate::{cli::Token, settings::Settings};

pub fn print(settings: &Settings, wanted: &Token) -> Result<(), Box<dyn Error>> {
    println!("{}", mint(settings, wanted)?);
    Ok(())
}

fn mint(settings: &Settings, wanted: &Token) -> Result<String, Box<dyn Error>> {
    if settings.jwt_secret.is_empty() {
        return Err(
            "jwt_secret is not set (SANDBOX_JWT_SECRET), so the service takes no token".into(),
        );
    }
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
    let key = EncodingKey::from_secret(settings.jwt_secret.as_bytes());
    Ok(encode(&Header::default(), &claims, &key)?)
}
