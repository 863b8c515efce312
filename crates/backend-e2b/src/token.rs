//! The token of a sandbox's guest: nothing to store, and nothing that one sandbox could
//! learn of another's.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::secret::Secret;

/// Of nothing else is a token made from the secret.
const PURPOSE: &[u8] = b"sandboxd guest token v1\0";

/// For whoever knows the secret; `sandbox` is E2B's id.
pub(crate) fn of_guest(secret: &Secret, sandbox: &str) -> Option<Secret> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).ok()?;
    mac.update(PURPOSE);
    mac.update(sandbox.as_bytes());
    let code = mac.finalize().into_bytes();
    Some(Secret::new(
        code.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sandbox_and_each_service_has_a_token_of_its_own() {
        let of = |secret: &str, sandbox: &str| {
            let token = of_guest(&Secret::new(secret), sandbox).unwrap();
            token.expose().to_owned()
        };
        assert_eq!(of("s", "ia1"), of("s", "ia1"));
        assert_eq!(of("s", "ia1").len(), 64);
        assert_ne!(of("s", "ia1"), of("s", "ia2"));
        assert_ne!(of("s", "ia1"), of("t", "ia1"));
    }
}
