//! What an API key looks like: `sbx_`, its public id, `_`, its secret.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

const PREFIX: &str = "sbx_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;
/// 32 bytes in base64.
const SECRET_CHARS: usize = 43;

/// A key as its holder has it. Not `Debug`: it is a secret.
pub struct ApiKey {
    id: String,
    secret: String,
}

impl ApiKey {
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut id = [0; ID_BYTES];
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut secret)?;
        Ok(Self {
            id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            secret: URL_SAFE_NO_PAD.encode(secret),
        })
    }

    /// Whether this is meant to be a key; a JWT is not.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let good_id =
            id.len() == 2 * ID_BYTES && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let good_secret = secret.len() == SECRET_CHARS
            && secret
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        (good_id && good_secret).then(|| Self {
            id: id.to_owned(),
            secret: secret.to_owned(),
        })
    }

    /// Public: names the key in lists, logs and the audit trail.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The whole key, to be shown once.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, self.secret)
    }

    /// What is kept. The secret has 256 random bits: there is nothing to guess,
    /// so a slow hash would only slow the service.
    pub fn secret_sha256(&self) -> [u8; 32] {
        Sha256::digest(self.secret.as_bytes()).into()
    }

    pub(crate) fn has_secret(&self, sha256: &[u8; 32]) -> bool {
        self.secret_sha256().ct_eq(sha256).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_shown() {
        let key = ApiKey::generate().unwrap();
        let shown = key.reveal();
        assert!(ApiKey::is_meant(&shown));
        assert_eq!(shown.len(), "sbx_".len() + 16 + 1 + 43);
        let read = ApiKey::parse(&shown).unwrap();
        assert_eq!(read.id(), key.id());
        assert!(read.has_secret(&key.secret_sha256()));
        let other = ApiKey::generate().unwrap();
        assert!(!other.has_secret(&key.secret_sha256()));
        assert_ne!(other.id(), key.id());
    }

    #[test]
    fn what_is_not_a_key_is_told_before_anything_is_looked_up() {
        let good = ApiKey::generate().unwrap().reveal();
        for bad in [
            "",
            "sbx_",
            "sbx__",
            "sbx_0123456789abcdef",
            "sbx_0123456789abcdef_",
            &good[..good.len() - 1],
            &format!("{good}x"),
            &format!(" {good}"),
            &good.replacen("sbx_", "SBX_", 1),
            &good.replacen("sbx_", "sbx_'", 1),
            &format!("sbx_{}_{}", "A".repeat(16), "a".repeat(43)),
            &format!("sbx_{}_{}", "a".repeat(16), "\0".repeat(43)),
            &format!("sbx_{}_{}", "a".repeat(16), "=".repeat(43)),
        ] {
            assert!(ApiKey::parse(bad).is_none(), "{bad:?}");
        }
    }
}
