//! Sandboxes of this API: their names, and the sessions that they are.

use sandbox_core::{E2bOptions, Error, ErrorCode, Result, SessionId, SessionKey, TenantId};
use sandbox_session::{SessionInfo, SessionState};

use crate::{secret::Purpose, state::Facade};

/// 128 bits in base 36.
const RANDOM_CHARS: usize = 25;
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Whether this may be the name of a sandbox. A hyphen would part a host's name.
pub(crate) fn is_sandbox_id(text: &str) -> bool {
    (1..=40).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
}

/// Whether it is one that this service makes.
pub(crate) fn is_like_ours(text: &str) -> bool {
    text.len() == 1 + RANDOM_CHARS && text.starts_with('i') && is_sandbox_id(text)
}

/// The name that these bits make.
pub(crate) fn sandbox_id(mut bits: u128) -> String {
    let mut digits = [b'0'; RANDOM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(bits % 36) as usize];
        bits /= 36;
    }
    let mut id = String::with_capacity(1 + RANDOM_CHARS);
    id.push('i');
    id.extend(digits.iter().map(|digit| char::from(*digit)));
    id
}

pub(crate) fn random_bits() -> Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(Error::internal)?;
    Ok(u128::from_be_bytes(bytes))
}

/// A sandbox that traffic is for.
pub(crate) struct Found {
    pub key: SessionKey,
    pub options: E2bOptions,
}

impl Found {
    pub(crate) fn token(&self, facade: &Facade, purpose: Purpose) -> String {
        let (name, salt) = (self.key.session.as_str(), &self.options.token_salt);
        facade.secret.token(purpose, name, salt)
    }

    pub(crate) fn is_token(&self, facade: &Facade, purpose: Purpose, given: &[u8]) -> bool {
        let (name, salt) = (self.key.session.as_str(), &self.options.token_salt);
        facade.secret.is_token(purpose, name, salt, given)
    }
}

impl Facade {
    /// A tenant's own sandbox. One of somebody else is none, as one of another API is.
    pub(crate) fn own(&self, tenant: &TenantId, id: &str) -> Option<(SessionInfo, E2bOptions)> {
        let session = self.session_id(id)?;
        let key = SessionKey::new(tenant.clone(), session);
        let info = self.sessions.get(&key)?;
        if info.state == SessionState::Ending || self.is_over(&info) {
            return None;
        }
        let options = info.options.e2b.clone()?;
        Some((info, options))
    }

    /// The sandbox of this name, whoever's it is: names cannot be guessed, and those
    /// that ask have no tenant but a token.
    pub(crate) fn find(&self, id: &str) -> Option<Found> {
        let session = self.session_id(id)?;
        let (key, options) = self.sessions.find_e2b(&session)?;
        Some(Found { key, options })
    }

    fn session_id(&self, id: &str) -> Option<SessionId> {
        is_sandbox_id(id).then(|| id.parse().ok()).flatten()
    }

    /// Whether its time is over, though nobody has ended it yet.
    pub(crate) fn is_over(&self, info: &SessionInfo) -> bool {
        info.state != SessionState::Paused
            && info.options.on_end == sandbox_core::OnEnd::Delete
            && info.ends.is_some_and(|ends| ends <= self.clock.now())
    }
}

/// What callers learn of a sandbox that is not there, or not theirs.
pub(crate) fn no_sandbox(id: &str) -> Error {
    // Cut, for it comes from the request.
    let id: String = id.chars().take(64).collect();
    Error::new(
        ErrorCode::NotFound,
        format!("Sandbox \"{id}\" doesn't exist or you don't have access to it"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_all_its_bits_and_nothing_that_parts_a_host() {
        assert_eq!(sandbox_id(0), format!("i{}", "0".repeat(25)));
        let longest = sandbox_id(u128::MAX);
        assert_eq!(longest.len(), 26);
        assert!(is_sandbox_id(&longest) && is_like_ours(&longest));
        assert_ne!(sandbox_id(1), sandbox_id(2));
        for bad in ["", "a-b", "A", "a.b", "a/b", "ä", &"a".repeat(41)] {
            assert!(!is_sandbox_id(bad), "{bad}");
        }
    }
}
