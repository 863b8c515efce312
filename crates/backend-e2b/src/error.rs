//! What an E2B server says, as errors of ours.

use std::time::Duration;

use http::StatusCode;
use sandbox_core::{Error, ErrorCode};

/// Of the server's words, which go to the log alone.
const MAX_WORDS: usize = 500;
/// Where the server does not say when to come again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What the server said, for the log; it is none of the client's business, for it may
/// name teams, nodes and sandboxes.
#[derive(Debug, thiserror::Error)]
#[error("E2B answered {status}: {words}")]
pub(crate) struct Said {
    pub status: StatusCode,
    words: String,
}

impl Said {
    pub fn new(status: StatusCode, body: &[u8]) -> Self {
        #[derive(serde::Deserialize)]
        struct Message {
            message: String,
        }
        let words = match serde_json::from_slice(body) {
            Ok(Message { message }) => message,
            Err(_) => String::from_utf8_lossy(body).into_owned(),
        };
        let words = words
            .chars()
            .map(|it| if it.is_control() { ' ' } else { it })
            .take(MAX_WORDS)
            .collect();
        Self { status, words }
    }

    /// That it is no sandbox's fault: the team has used up what it may.
    fn is_quota(&self) -> bool {
        let words = self.words.to_ascii_lowercase();
        ["quota", "limit", "maximum number", "billing", "upgrade"]
            .iter()
            .any(|it| words.contains(it))
    }
}

pub(crate) fn unavailable(detail: impl Into<String>) -> Error {
    Error::new(ErrorCode::BackendUnavailable, detail)
}

/// No answer came.
pub(crate) fn unreachable(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    unavailable("the E2B server cannot be reached")
        .with_retry_after(RETRY_AFTER)
        .with_source(source)
}

/// An answer that is not the one that was wanted.
pub(crate) fn refused(what: &str, said: Said, retry_after: Option<Duration>) -> Error {
    let detail = match said.status {
        StatusCode::UNAUTHORIZED => "the E2B server refuses the key in E2B_API_KEY".to_owned(),
        StatusCode::PAYMENT_REQUIRED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
            if said.status == StatusCode::PAYMENT_REQUIRED || said.is_quota() =>
        {
            "the E2B account has used up its quota".to_owned()
        }
        StatusCode::FORBIDDEN => {
            format!("the E2B server does not let the key in E2B_API_KEY {what}")
        }
        StatusCode::TOO_MANY_REQUESTS => "the E2B server takes no more requests now".to_owned(),
        status if status.is_server_error() => "the E2B server is in trouble".to_owned(),
        _ => format!("the E2B server did not {what}"),
    };
    let may_pass = said.status == StatusCode::TOO_MANY_REQUESTS || said.status.is_server_error();
    let error = unavailable(detail);
    let error = match retry_after.or(may_pass.then_some(RETRY_AFTER)) {
        Some(after) => error.with_retry_after(after),
        None => error,
    };
    error.with_source(said)
}

/// An answer that cannot be read.
pub(crate) fn strange(
    what: &str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    unavailable(format!(
        "what the E2B server answers to {what} is not understood"
    ))
    .with_source(source)
}
