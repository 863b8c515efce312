//! Why a call is not carried out, in the shape of Docker's own errors.

use http::StatusCode;
use serde_json::json;

/// Longest piece of a request that an answer or a line of the log repeats.
const QUOTED_CHARS: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    pub status: StatusCode,
    pub reason: String,
}

pub type Result<T> = std::result::Result<T, Refusal>;

impl Refusal {
    pub fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
        }
    }

    /// What the gate does not permit.
    pub fn forbidden(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, reason)
    }

    /// What cannot be understood.
    pub fn malformed(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    /// What the daemon would have to answer, and does not.
    pub fn upstream(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, reason)
    }

    pub fn body(&self) -> Vec<u8> {
        json!({ "message": format!("docker-gate: {}", self.reason) })
            .to_string()
            .into_bytes()
    }
}

/// A piece of a request, short and without control characters.
pub fn quoted(text: &str) -> String {
    let short: String = text.chars().take(QUOTED_CHARS).collect();
    let more = if short.len() < text.len() { "..." } else { "" };
    format!("`{}{more}`", short.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_writes_no_line_of_its_own_in_the_log() {
        assert_eq!(quoted("a\n\u{1b}[31mb"), "`a\\n\\u{1b}[31mb`");
        assert!(quoted(&"x".repeat(1000)).len() < 100);
    }
}
