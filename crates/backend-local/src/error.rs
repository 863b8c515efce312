//! Errors of this crate, for the log; the client reads a sentence only.

use std::io;

use sandbox_core::{Error, ErrorCode};

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A step that did not work.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Failure {
    what: String,
    #[source]
    cause: Option<Cause>,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            cause: None,
        }
    }

    pub fn because(what: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self {
            what: what.into(),
            cause: Some(cause.into()),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Error::new(
            ErrorCode::BackendUnavailable,
            "the sandbox could not be made",
        )
        .with_source(failure)
    }
}

/// Says what was tried when it failed.
pub(crate) trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure::because(what(), error.into()))
    }
}
