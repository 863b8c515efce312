//! A JSON Web Key Set (RFC 7517): which of its keys may check tokens.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::Value;

use crate::{Algorithm, VerifyingKey};

/// A field of P-256.
const P256_BYTES: usize = 32;

/// Keys that may check tokens; those that may not are left out.
pub(crate) struct KeySet {
    keys: Vec<Named>,
    left_out: usize,
}

struct Named {
    id: Option<String>,
    key: Arc<VerifyingKey>,
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

/// One key; what other members there are says nothing about it.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    intended_use: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// `only` leaves out the keys of other algorithms.
    pub(crate) fn read(json: &[u8], only: Option<Algorithm>) -> Result<Self, serde_json::Error> {
        let set: Set = serde_json::from_slice(json)?;
        let total = set.keys.len();
        let keys: Vec<Named> = set
            .keys
            .into_iter()
            .filter_map(|key| serde_json::from_value::<Jwk>(key).ok()?.usable(only))
            .collect();
        Ok(Self {
            left_out: total - keys.len(),
            keys,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// The key with this id. A token that names none can only mean the one there is.
    pub(crate) fn find(&self, id: Option<&str>) -> Option<Arc<VerifyingKey>> {
        let found = match (id, self.keys.as_slice()) {
            (Some(id), keys) => keys.iter().find(|key| key.id.as_deref() == Some(id)),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        found.map(|named| Arc::clone(&named.key))
    }
}

impl Jwk {
    fn usable(self, only: Option<Algorithm>) -> Option<Named> {
        if self.intended_use.as_deref().is_some_and(|it| it != "sig") {
            return None;
        }
        let verifies = |operations: &Vec<String>| operations.iter().any(|it| it == "verify");
        if self.key_ops.as_ref().is_some_and(|ops| !verifies(ops)) {
            return None;
        }
        let key = self.key()?;
        let algorithm = key.algorithm();
        // A key is good for what its kind says; a set that says something else is in error.
        if self
            .alg
            .as_deref()
            .is_some_and(|it| it != algorithm.as_str())
            || only.is_some_and(|only| only != algorithm)
        {
            return None;
        }
        Some(Named {
            id: self.kid,
            key: Arc::new(key),
        })
    }

    /// Public keys alone: a secret (`oct`) that a URL tells is none.
    fn key(&self) -> Option<VerifyingKey> {
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", None) => VerifyingKey::from_rsa_numbers(&bytes(&self.n)?, &bytes(&self.e)?),
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(&self.x)?, bytes(&self.y)?);
                if x.len() != P256_BYTES || y.len() != P256_BYTES {
                    return None;
                }
                VerifyingKey::p256(&[&[0x04], x.as_slice(), y.as_slice()].concat())
            }
            ("OKP", Some("Ed25519")) => VerifyingKey::ed25519(&bytes(&self.x)?),
            _ => return None,
        }
        .ok()
    }
}

fn bytes(text: &Option<String>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.as_ref()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // RFC 8037, appendix A.2, and RFC 7517, appendix A.1.
    const ED: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    const X: &str = "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4";
    const Y: &str = "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM";
    const N: &str = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";

    fn read(keys: Value, only: Option<Algorithm>) -> KeySet {
        KeySet::read(json!({ "keys": keys }).to_string().as_bytes(), only).unwrap()
    }

    fn good() -> Value {
        json!([
            {"kty": "OKP", "crv": "Ed25519", "x": ED, "kid": "ed", "use": "sig", "alg": "EdDSA"},
            {"kty": "EC", "crv": "P-256", "x": X, "y": Y, "kid": "ec", "key_ops": ["verify"]},
            {"kty": "RSA", "n": N, "e": "AQAB", "kid": "rsa", "alg": "RS256", "x5t": "unread"},
        ])
    }

    #[test]
    fn the_algorithm_of_a_key_is_that_of_its_kind() {
        let set = read(good(), None);
        let algorithms: Vec<_> = ["ed", "ec", "rsa"]
            .into_iter()
            .map(|id| set.find(Some(id)).unwrap().algorithm())
            .collect();
        assert_eq!(
            algorithms,
            [Algorithm::EdDsa, Algorithm::Es256, Algorithm::Rs256]
        );
        assert_eq!(set.left_out(), 0);
        assert!(set.find(Some("other")).is_none());
        assert!(set.find(None).is_none(), "one of three is not meant");
    }

    #[test]
    fn a_pinned_algorithm_leaves_the_other_keys_out() {
        let set = read(good(), Some(Algorithm::Es256));
        assert_eq!((set.len(), set.left_out()), (1, 2));
        assert!(set.find(None).is_some(), "one usable key can only be it");
        assert!(set.find(Some("rsa")).is_none());
        assert_eq!(read(good(), Some(Algorithm::Hs256)).len(), 0);
    }

    #[test]
    fn keys_for_something_else_and_garbage_are_left_out() {
        let short = &ED[..20];
        let bad = [
            json!({"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMw", "kid": "k", "alg": "HS256"}),
            json!({"kty": "RSA", "n": N, "e": "AQAB", "use": "enc"}),
            json!({"kty": "RSA", "n": N, "e": "AQAB", "key_ops": ["encrypt"]}),
            json!({"kty": "RSA", "n": N, "e": "AQAB", "alg": "HS256"}),
            json!({"kty": "RSA", "n": N, "e": "AQAB", "alg": "none"}),
            json!({"kty": "RSA", "n": N, "e": "AQAB", "alg": "ES256"}),
            json!({"kty": "RSA", "n": N, "e": "AQAB", "alg": "RS1"}),
            json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"}),
            json!({"kty": "RSA", "n": N.repeat(4), "e": "AQAB"}),
            json!({"kty": "RSA", "n": N, "e": "Ag"}),
            json!({"kty": "RSA", "n": "", "e": ""}),
            json!({"kty": "RSA", "n": "!!", "e": "AQAB"}),
            json!({"kty": "RSA"}),
            json!({"kty": "EC", "crv": "P-384", "x": X, "y": Y}),
            // Not a point of the curve.
            json!({"kty": "EC", "crv": "P-256", "x": Y, "y": X}),
            json!({"kty": "EC", "crv": "P-256", "x": X, "y": ""}),
            json!({"kty": "OKP", "crv": "Ed448", "x": ED}),
            json!({"kty": "OKP", "crv": "Ed25519", "x": short}),
            json!({"kty": "OKP", "crv": "Ed25519", "x": ""}),
            json!({"kty": "OKP", "crv": "Ed25519", "x": ED, "kid": 7}),
            json!({"kid": "none"}),
            json!("text"),
            json!(null),
            json!([[[]]]),
        ];
        for key in &bad {
            let set = read(json!([key]), None);
            assert_eq!((set.len(), set.left_out()), (0, 1), "{key}");
        }
        let mut all = bad.to_vec();
        all.push(good()[0].clone());
        let set = read(json!(all), None);
        assert_eq!((set.len(), set.left_out()), (1, bad.len()));
        assert!(set.find(Some("ed")).is_some());
    }

    #[test]
    fn what_is_not_a_set_is_an_error_and_not_an_empty_one() {
        for bad in [
            "",
            "{}",
            "[]",
            "null",
            r#"{"keys": {}}"#,
            "<html>",
            r#"{"keys": []"#,
        ] {
            assert!(KeySet::read(bad.as_bytes(), None).is_err(), "{bad}");
        }
        assert_eq!(KeySet::read(br#"{"keys": []}"#, None).unwrap().len(), 0);
        let deep = format!(r#"{{"keys": {}{}}}"#, "[".repeat(9999), "]".repeat(9999));
        assert!(KeySet::read(deep.as_bytes(), None).is_err());
    }
}
