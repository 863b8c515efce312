//! What an API key looks like: `sbx_`, its public id, `_`, its secret; or, for clients of
//! E2B's that look at the form, `e2b_` and 40 hex digits, the first 16 of which are its id.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

const PREFIX: &str = "sbx_";
const E2B_PREFIX: &str = "e2b_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;
/// 32 bytes in base64.
const SECRET_CHARS: usize = 43;
const E2B_SECRET_BYTES: usize = 12;

/// A key as its holder has it. Not `Debug`: it is a secret.
pub struct ApiKey {
    form: Form,
    id: String,
    secret: String,
}

#[derive(Clone, Copy)]
enum Form {
    Own,
    E2b,
}

impl ApiKey {
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut id = [0; ID_BYTES];
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut secret)?;
        Ok(Self {
            form: Form::Own,
            id: hex(&id),
            secret: URL_SAFE_NO_PAD.encode(secret),
        })
    }

    /// One in the form that E2B's keys have.
    pub fn generate_e2b() -> Result<Self, getrandom::Error> {
        let mut id = [0; ID_BYTES];
        let mut secret = [0; E2B_SECRET_BYTES];
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut secret)?;
        Ok(Self {
            form: Form::E2b,
            id: hex(&id),
            secret: hex(&secret),
        })
    }

    /// Whether this is meant to be a key; a JWT is not.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(PREFIX) || text.starts_with(E2B_PREFIX)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix(E2B_PREFIX) {
            let good = rest.len() == 2 * (ID_BYTES + E2B_SECRET_BYTES) && rest.bytes().all(is_hex);
            return good.then(|| Self {
                form: Form::E2b,
                id: rest[..2 * ID_BYTES].to_owned(),
                secret: rest[2 * ID_BYTES..].to_owned(),
            });
        }
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let good_id = id.len() == 2 * ID_BYTES && id.bytes().all(is_hex);
        let good_secret = secret.len() == SECRET_CHARS
            && secret
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        (good_id && good_secret).then(|| Self {
            form: Form::Own,
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
        match self.form {
            Form::Own => format!("{PREFIX}{}_{}", self.id, self.secret),
            Form::E2b => format!("{E2B_PREFIX}{}{}", self.id, self.secret),
        }
    }

    /// What is kept. The secret has 96 random bits or more: there is nothing to guess,
    /// so a slow hash would only slow the service.
    pub fn secret_sha256(&self) -> [u8; 32] {
        Sha256::digest(self.secret.as_bytes()).into()
    }

    pub(crate) fn has_secret(&self, sha256: &[u8; 32]) -> bool {
        self.secret_sha256().ct_eq(sha256).into()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
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
    fn a_key_may_have_the_form_of_those_of_e2b() {
        let key = ApiKey::generate_e2b().unwrap();
        let shown = key.reveal();
        assert!(ApiKey::is_meant(&shown));
        assert_eq!(shown.len(), "e2b_".len() + 40);
        let read = ApiKey::parse(&shown).unwrap();
        assert_eq!((read.id(), read.reveal()), (key.id(), shown.clone()));
        assert!(read.has_secret(&key.secret_sha256()));
        for bad in [
            "e2b_",
            &shown[..shown.len() - 1],
            &format!("{shown}0"),
            &shown.to_uppercase(),
            &format!("e2b_{}", "g".repeat(40)),
            &format!("e2b_{}", "ä".repeat(20)),
        ] {
            assert!(ApiKey::parse(bad).is_none(), "{bad:?}");
        }
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
