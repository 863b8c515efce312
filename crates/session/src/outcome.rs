//! A result that many wait for and one task gives.

use sandbox_core::{Error, ErrorCode, Result};
use std::time::Duration;
use tokio::sync::watch;

/// An error that each of many callers gets; what caused it is logged by the task.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    code: ErrorCode,
    detail: String,
    retry_after: Option<Duration>,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self {
            code: error.code(),
            detail: error.detail().to_owned(),
            retry_after: error.retry_after(),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let error = Self::new(failure.code, failure.detail);
        match failure.retry_after {
            Some(after) => error.with_retry_after(after),
            None => error,
        }
    }
}

type Shared<T> = Option<Result<T, Failure>>;

/// Given once.
pub(crate) struct Promise<T>(watch::Sender<Shared<T>>);

/// A clone waits for the same result.
#[derive(Clone)]
pub(crate) struct Outcome<T>(watch::Receiver<Shared<T>>);

pub(crate) fn promise<T: Clone>() -> (Promise<T>, Outcome<T>) {
    let (sender, receiver) = watch::channel(None);
    (Promise(sender), Outcome(receiver))
}

impl<T> Promise<T> {
    pub fn keep(self, result: Result<T, Failure>) {
        let _ = self.0.send(Some(result));
    }
}

impl<T: Clone> Outcome<T> {
    /// Waits for a task that has deadlines of its own.
    pub async fn wait(mut self) -> Result<T> {
        let result = match self.0.wait_for(Option::is_some).await {
            Ok(result) => result.clone(),
            Err(_) => None,
        };
        match result {
            Some(result) => result.map_err(Error::from),
            None => Err(Error::internal("the task that was waited for is gone")),
        }
    }
}
