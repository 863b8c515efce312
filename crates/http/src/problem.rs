//! Errors as `application/problem+json` (RFC 9457), and what the log says of them.
//!
//! A handler returns [`ApiError`]; the body is written where the request's id
//! is known, which is the outermost layer.

use std::{sync::Arc, time::Duration};

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use sandbox_core::{Error, ErrorCode, ExecutionId, chain};
use serde::Serialize;
use tracing::{Level, error, info, warn};
use utoipa::{
    ToResponse, ToSchema,
    openapi::{Content, ObjectBuilder, Ref, RefOr, Response as Answer, ResponseBuilder, Type},
};

use crate::request_id::RequestId;

const CONTENT_TYPE: &str = "application/problem+json";
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The body of every answer that is not a success.
#[derive(Serialize, ToSchema)]
pub(crate) struct Problem {
    /// `urn:sandboxd:problem:` and the code.
    #[serde(rename = "type")]
    #[schema(example = "urn:sandboxd:problem:invalid_path")]
    kind: String,
    /// The code in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What is wrong with this request.
    detail: String,
    #[schema(schema_with = codes)]
    code: &'static str,
    /// The `X-Request-Id` of this answer; the service's log has it too.
    request_id: String,
}

impl ToResponse<'static> for Problem {
    fn response() -> (&'static str, RefOr<Answer>) {
        let content = Content::new(Some(Ref::from_schema_name("Problem")));
        let answer = ResponseBuilder::new()
            .description(
                "Refused or failed. 429 and 503 carry `Retry-After`, in seconds; 401 carries \
                 `WWW-Authenticate`.",
            )
            .content(CONTENT_TYPE, content)
            .build();
        ("Problem", answer.into())
    }
}

impl Problem {
    fn new(error: &Error, request_id: String) -> Self {
        let code = error.code().as_str();
        Self {
            kind: format!("urn:sandboxd:problem:{code}"),
            title: code.replace('_', " "),
            status: status(error.code()).as_u16(),
            detail: error.detail().to_owned(),
            code,
            request_id,
        }
    }
}

/// The problem of a run whose answer has begun already; the run's name stands
/// for the request's.
pub(crate) fn event(error: &Error, execution: &ExecutionId) -> Problem {
    log(error);
    Problem::new(error, execution.to_string())
}

fn codes() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("The stable name of the error, to match on."))
        .enum_values(Some(ErrorCode::ALL.iter().map(|code| code.as_str())))
}

/// The HTTP status of an error.
pub fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::InvalidRequest | ErrorCode::InvalidPath | ErrorCode::InvalidPattern => {
            StatusCode::BAD_REQUEST
        }
        ErrorCode::Unauthorized => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden | ErrorCode::ForbiddenTenant | ErrorCode::PermissionDenied => {
            StatusCode::FORBIDDEN
        }
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        ErrorCode::AlreadyExists
        | ErrorCode::DirectoryNotEmpty
        | ErrorCode::NoMatch
        | ErrorCode::SeveralMatches
        | ErrorCode::SessionDeleted
        | ErrorCode::SessionExists
        | ErrorCode::SessionPaused
        | ErrorCode::Cancelled
        | ErrorCode::ExecutionMismatch
        | ErrorCode::ExecutionExpired
        | ErrorCode::ContextBusy
        | ErrorCode::ContextMismatch
        | ErrorCode::ProcessEnded => StatusCode::CONFLICT,
        ErrorCode::ArtifactGone => StatusCode::GONE,
        ErrorCode::BodyTooLarge | ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorCode::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
        ErrorCode::IsADirectory
        | ErrorCode::NotADirectory
        | ErrorCode::NotARegularFile
        | ErrorCode::NotText
        | ErrorCode::UnknownLanguage
        | ErrorCode::NotInstalled
        | ErrorCode::InvalidArchive
        | ErrorCode::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorCode::SessionLimitReached
        | ErrorCode::SessionBusy
        | ErrorCode::ProcessLimitReached
        | ErrorCode::ContextLimitReached
        | ErrorCode::RateLimited
        | ErrorCode::TenantBusy
        | ErrorCode::SandboxExhausted => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorCode::SandboxLost
        | ErrorCode::BackendUnavailable
        | ErrorCode::KeysUnavailable
        | ErrorCode::Overloaded
        | ErrorCode::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::Timeout => StatusCode::GATEWAY_TIMEOUT,
        ErrorCode::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
    }
}

/// How loud the log is: `error` means that somebody must act, so what a program
/// does to its own sandbox is none.
fn level(code: ErrorCode) -> Level {
    match code {
        ErrorCode::Internal | ErrorCode::BackendUnavailable | ErrorCode::Timeout => Level::ERROR,
        ErrorCode::SandboxLost => Level::WARN,
        _ => Level::INFO,
    }
}

/// An [`Error`] on its way to the client.
#[derive(Debug)]
pub(crate) struct ApiError(Error);

pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        error.0
    }
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self(Error::new(code, detail))
    }

    pub(crate) fn code(&self) -> ErrorCode {
        self.0.code()
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, detail)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = status(self.0.code()).into_response();
        response.extensions_mut().insert(Arc::new(self.0));
        response
    }
}

/// Logs the error that `response` carries, if it does, and writes its body.
pub(crate) fn render(response: Response, id: &RequestId) -> Response {
    let Some(error) = response.extensions().get::<Arc<Error>>().cloned() else {
        return response;
    };
    log(&error);
    let status = status(error.code());
    let problem = Problem::new(&error, id.to_string());
    let mut rendered = (status, axum::Json(problem)).into_response();
    // What was there before is kept: `Allow` of a 405, `Content-Range` of a 416.
    for (name, value) in response.headers() {
        if name != header::CONTENT_LENGTH {
            rendered.headers_mut().insert(name, value.clone());
        }
    }
    let headers = rendered.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    ) {
        let after = error.retry_after().unwrap_or(RETRY_AFTER);
        headers.insert(header::RETRY_AFTER, whole_seconds(after).into());
    }
    rendered
}

fn whole_seconds(duration: Duration) -> u64 {
    (duration.as_secs_f64().ceil() as u64).max(1)
}

/// The detail of a fault of the client's is not logged: it may quote the request.
pub fn log(error: &Error) {
    let code = error.code().as_str();
    match level(error.code()) {
        Level::ERROR => error!(error.code = code, "request failed: {}", chain(error)),
        Level::WARN => warn!(error.code = code, "request failed: {}", chain(error)),
        _ => info!(error.code = code, "request refused: `{code}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_be_retried_is_429_or_503_and_nothing_else_is() {
        let retried: Vec<&str> = ErrorCode::ALL
            .iter()
            .filter(|code| matches!(status(**code).as_u16(), 429 | 503))
            .map(|code| code.as_str())
            .collect();
        assert_eq!(
            retried,
            [
                "keys_unavailable",
                "process_limit_reached",
                "context_limit_reached",
                "rate_limited",
                "tenant_busy",
                "overloaded",
                "session_limit_reached",
                "session_busy",
                "sandbox_exhausted",
                "sandbox_lost",
                "backend_unavailable",
                "shutting_down"
            ]
        );
    }

    #[test]
    fn the_chain_names_every_cause_once() {
        let inner = std::io::Error::other("disk on fire");
        let error = Error::internal(Error::internal(inner));
        assert_eq!(
            chain(&error),
            "internal error: internal error: disk on fire"
        );
    }

    #[test]
    fn a_part_of_a_second_is_waited_for_in_full() {
        assert_eq!(whole_seconds(Duration::from_millis(1200)), 2);
        assert_eq!(whole_seconds(Duration::ZERO), 1);
    }
}
