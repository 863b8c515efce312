//! Errors of the guest's services.

use std::io;

use connectrpc::{ConnectError, ErrorCode as Connect, ErrorDetail};
use rustix::io::Errno;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::ErrorInfo;

/// An error with the stable code that the HTTP answer shows.
pub(crate) fn error(code: ErrorCode, message: impl Into<String>) -> ConnectError {
    let connect = match code {
        ErrorCode::NotFound | ErrorCode::NotInstalled => Connect::NotFound,
        ErrorCode::AlreadyExists => Connect::AlreadyExists,
        ErrorCode::PermissionDenied => Connect::PermissionDenied,
        ErrorCode::NoSpace | ErrorCode::SandboxExhausted | ErrorCode::TooLarge => {
            Connect::ResourceExhausted
        }
        ErrorCode::NoMatch | ErrorCode::SeveralMatches | ErrorCode::DirectoryNotEmpty => {
            Connect::FailedPrecondition
        }
        ErrorCode::Internal => Connect::Internal,
        _ => Connect::InvalidArgument,
    };
    let info = ErrorInfo {
        code: code.as_str().to_owned(),
        ..Default::default()
    };
    ConnectError::new(connect, message)
        .with_detail(ErrorDetail::from_message("sandbox.v1.ErrorInfo", &info))
}

/// What the kernel said about a path.
pub(crate) fn from_io(cause: &io::Error, path: &str) -> ConnectError {
    use io::ErrorKind as Kind;
    match cause.kind() {
        Kind::NotFound => error(ErrorCode::NotFound, format!("`{path}` does not exist")),
        Kind::AlreadyExists => error(ErrorCode::AlreadyExists, format!("`{path}` exists already")),
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => error(
            ErrorCode::PermissionDenied,
            format!("`{path}` may not be accessed"),
        ),
        Kind::IsADirectory => error(ErrorCode::IsADirectory, format!("`{path}` is a directory")),
        Kind::NotADirectory => error(
            ErrorCode::NotADirectory,
            format!("a part of `{path}` is not a directory"),
        ),
        Kind::DirectoryNotEmpty => error(
            ErrorCode::DirectoryNotEmpty,
            format!("`{path}` is not empty"),
        ),
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => {
            error(ErrorCode::NoSpace, "no space is left in the sandbox")
        }
        _ if cause.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => error(
            ErrorCode::InvalidPath,
            format!("`{path}` is a link that leads in circles"),
        ),
        Kind::InvalidFilename => error(ErrorCode::InvalidPath, "the path is too long"),
        // A device that nobody serves, or a socket.
        _ if [Errno::NXIO, Errno::NODEV]
            .map(|errno| Some(errno.raw_os_error()))
            .contains(&cause.raw_os_error()) =>
        {
            not_regular(path)
        }
        _ => error(ErrorCode::Internal, format!("`{path}`: {}", cause.kind())),
    }
}

pub(crate) fn not_regular(path: &str) -> ConnectError {
    error(
        ErrorCode::NotARegularFile,
        format!("`{path}` is not a regular file"),
    )
}

/// The answer of file work on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ConnectError> + Send + 'static,
) -> Result<T, ConnectError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(error(ErrorCode::Internal, "the file work was broken off")))
}
