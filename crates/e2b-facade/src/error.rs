//! Refusals as E2B says them: `{"code": 404, "message": "..."}`.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use e2b_wire::{ApiError, headers};
use http::{HeaderValue, StatusCode, header};
use sandbox_core::{Error, ErrorCode};

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a request is not answered as it was meant.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    message: String,
    /// Whether the SDKs shall ask again by themselves, and after how long.
    retry: Option<(bool, Duration)>,
}

pub(crate) type Answer<T = Response> = Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            retry: None,
        }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Of what E2B has and this service has not.
    pub(crate) fn unsupported(what: &str) -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            format!("{what} is not supported by this server"),
        )
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        sandbox_http::log_error(&error);
        let status = match error.code() {
            // What this API can be asked for and the backend cannot do.
            ErrorCode::Unsupported => StatusCode::NOT_IMPLEMENTED,
            // It ended while it was asked: the same as if it had before.
            ErrorCode::SessionDeleted => StatusCode::NOT_FOUND,
            code => sandbox_http::status(code),
        };
        let retry = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        )
        .then(|| {
            // That there is place for another sandbox may take long; callers shall learn of it.
            let soon = error.code() != ErrorCode::SessionLimitReached;
            (soon, error.retry_after().unwrap_or(RETRY_AFTER))
        });
        Self {
            status,
            message: error.detail().to_owned(),
            retry,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = ApiError::new(self.status.as_u16(), self.message);
        let mut response = (self.status, axum::Json(body)).into_response();
        if let Some((again, after)) = self.retry {
            let seconds = (after.as_secs_f64().ceil() as u64).max(1);
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, seconds.into());
            let again = if again { "true" } else { "false" };
            headers.insert(headers::SHOULD_RETRY, HeaderValue::from_static(again));
        }
        response
    }
}
