//! Key pairs that OpenSSL made, once for all tests.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    sync::OnceLock,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use serde_json::{Value, json};

pub struct Pair {
    pub algorithm: Algorithm,
    pub public_pem: String,
    pub private_pem: String,
    pub signing: EncodingKey,
}

impl Pair {
    fn make(algorithm: Algorithm, options: &[&str]) -> Self {
        let private = openssl(&[&["genpkey"], options].concat(), b"");
        let public = openssl(&["pkey", "-pubout"], &private);
        let der = openssl(
            &["pkcs8", "-topk8", "-nocrypt", "-outform", "DER"],
            &private,
        );
        let signing = match algorithm {
            Algorithm::RS256 => EncodingKey::from_rsa_der(&openssl(
                &["rsa", "-traditional", "-outform", "DER"],
                &private,
            )),
            Algorithm::ES256 => EncodingKey::from_ec_der(&der),
            _ => EncodingKey::from_ed_der(&der),
        };
        Self {
            algorithm,
            public_pem: String::from_utf8(public).unwrap(),
            private_pem: String::from_utf8(private).unwrap(),
            signing,
        }
    }

    /// As a member of a set, without `alg`.
    pub fn jwk(&self, id: &str) -> Value {
        let jwk = Jwk::from_encoding_key(&self.signing, self.algorithm).unwrap();
        let mut json = serde_json::to_value(jwk).unwrap();
        json.as_object_mut().unwrap().remove("alg");
        json["kid"] = json!(id);
        json
    }
}

pub fn rsa() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| {
        let options = ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
        Pair::make(Algorithm::RS256, &options)
    })
}

pub fn ec() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| {
        let options = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
        Pair::make(Algorithm::ES256, &options)
    })
}

pub fn ed() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| Pair::make(Algorithm::EdDSA, &["-algorithm", "ED25519"]))
}

pub fn other_ed() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| Pair::make(Algorithm::EdDSA, &["-algorithm", "ED25519"]))
}

pub fn openssl(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut process = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(input).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "openssl {arguments:?}");
    output.stdout
}

/// Claims of a good token.
pub fn claims() -> Value {
    json!({"sub": "u", "exp": 9_000_000_000_u64, "tenant_id": "acme"})
}

pub fn sign(pair: &Pair, id: Option<&str>) -> String {
    let header = Header {
        kid: id.map(str::to_owned),
        ..Header::new(pair.algorithm)
    };
    sign_with(pair, &header, &claims())
}

pub fn sign_with(pair: &Pair, header: &Header, claims: &Value) -> String {
    jsonwebtoken::encode(header, claims, &pair.signing).unwrap()
}

/// A token whose header no library would write.
pub fn encode_raw(header: &str, claims: &Value, sign: impl FnOnce(&[u8]) -> String) -> String {
    let message = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(claims.to_string())
    );
    let signature = sign(message.as_bytes());
    format!("{message}.{signature}")
}
