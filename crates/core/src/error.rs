//! One error for the whole service: a stable code and a sentence for the client.

use std::{fmt, sync::Arc, time::Duration};

pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)+) => {
        /// The stable name of what went wrong; clients may match on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)+
        }

        impl ErrorCode {
            /// Every code, for the documentation.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name),+];

            /// snake_case, as in `problem+json`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => $text,)+
                }
            }

            /// The code that has this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == name)
            }
        }
    };
}

codes! {
    /// The request is not understood, or a value is out of its range.
    InvalidRequest = "invalid_request",
    /// The path leaves the workspace or cannot be one.
    InvalidPath = "invalid_path",
    /// The regular expression or glob is not valid, or too large.
    InvalidPattern = "invalid_pattern",
    Unauthorized = "unauthorized",
    /// The token's role does not open this route.
    Forbidden = "forbidden",
    /// The token is not for this tenant.
    ForbiddenTenant = "forbidden_tenant",
    NotFound = "not_found",
    /// The route exists, but not with this method.
    MethodNotAllowed = "method_not_allowed",
    /// The request did not arrive in time.
    RequestTimeout = "request_timeout",
    /// The body is not JSON.
    UnsupportedMediaType = "unsupported_media_type",
    /// The file has none of the bytes that were asked for.
    RangeNotSatisfiable = "range_not_satisfiable",
    AlreadyExists = "already_exists",
    /// The path is a directory and the route wants a file.
    IsADirectory = "is_a_directory",
    /// The path is a file and the route wants a directory.
    NotADirectory = "not_a_directory",
    DirectoryNotEmpty = "directory_not_empty",
    /// A device, a socket, a FIFO, a file of /proc.
    NotARegularFile = "not_a_regular_file",
    /// The file is not UTF-8 text; read it as binary.
    NotText = "not_text",
    /// The file or the answer is larger than this route carries.
    TooLarge = "too_large",
    /// The request's body is larger than the service takes.
    BodyTooLarge = "body_too_large",
    /// The sandbox's own permissions forbid it.
    PermissionDenied = "permission_denied",
    /// The sandbox's disk or quota is full.
    NoSpace = "no_space",
    /// The text to replace is not in the file.
    NoMatch = "no_match",
    /// The text to replace is in the file more than once.
    SeveralMatches = "several_matches",
    /// The language is not in the table.
    UnknownLanguage = "unknown_language",
    /// The sandbox lacks the program.
    NotInstalled = "not_installed",
    /// The backend cannot do what the session's spec asks for.
    Unsupported = "unsupported",
    /// The session exists with another spec.
    SessionExists = "session_exists",
    /// The session is paused; it is resumed by a call of its own.
    SessionPaused = "session_paused",
    /// The run was cancelled before it started.
    Cancelled = "cancelled",
    /// The same execution_id was used for another request.
    ExecutionMismatch = "execution_mismatch",
    /// A run with this execution_id is over and its answer is no longer kept.
    ExecutionExpired = "execution_expired",
    /// Tokens cannot be checked: their signing keys could not be fetched.
    KeysUnavailable = "keys_unavailable",
    /// The artifact's copy was changed or removed inside the sandbox.
    ArtifactGone = "artifact_gone",
    /// The archive is damaged, or has an entry that is refused.
    InvalidArchive = "invalid_archive",
    /// The process has ended.
    ProcessEnded = "process_ended",
    ProcessLimitReached = "process_limit_reached",
    /// The context is busy with a run that is being ended.
    ContextBusy = "context_busy",
    /// The context has another language.
    ContextMismatch = "context_mismatch",
    ContextLimitReached = "context_limit_reached",
    /// The tenant sends more requests than it may.
    RateLimited = "rate_limited",
    /// The tenant has as many runs under way and waiting as it may.
    TenantBusy = "tenant_busy",
    /// The service as a whole has more work than it takes.
    Overloaded = "overloaded",
    SessionLimitReached = "session_limit_reached",
    /// Too many runs wait in this session.
    SessionBusy = "session_busy",
    /// The sandbox has no process, thread or memory left for the call.
    SandboxExhausted = "sandbox_exhausted",
    /// The session was deleted while the call ran.
    SessionDeleted = "session_deleted",
    /// The sandbox died while the call ran; the next call gets another.
    SandboxLost = "sandbox_lost",
    /// The sandbox or the store did not answer in time.
    Timeout = "timeout",
    /// The backend cannot make sandboxes now.
    BackendUnavailable = "backend_unavailable",
    /// The service is shutting down.
    ShuttingDown = "shutting_down",
    Internal = "internal",
}

/// What went wrong. `detail` is for the client: no host path, no secret, no
/// other tenant's name. The source stays in the log.
#[derive(Clone, Debug)]
pub struct Error {
    code: ErrorCode,
    detail: String,
    retry_after: Option<Duration>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            retry_after: None,
            source: None,
        }
    }

    /// A fault of ours: the client learns only that there was one.
    pub fn internal(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(ErrorCode::Internal, "internal error").with_source(source)
    }

    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    pub fn code(&self) -> ErrorCode {
        self.code
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }

    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}

/// An error and its causes, for the log and the operator.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
