//! Errors of the guest's services.

use std::io;

use connectrpc::{ConnectError, ErrorCode as Connect, ErrorDetail};
use rustix::io::Errno;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::ErrorInfo;

/// An error with the stable code that the HTTP answer shows.
pub fn error(code: ErrorCode, message: impl Into<String>) -> ConnectError {
    let connect = match code {
        ErrorCode::NotFound | ErrorCode::NotInstalled => Connect::NotFound,
        ErrorCode::AlreadyExists => Connect::AlreadyExists,
        ErrorCode::PermissionDenied => Connect::PermissionDenied,
        ErrorCode::NoSpace | ErrorCode::SandboxExhausted | ErrorCode::TooLarge => {
            Connect::ResourceExhausted
        }
        ErrorCode::NoMatch
        | ErrorCode::SeveralMatches
        | ErrorCode::DirectoryNotEmpty
        | ErrorCode::Unsupported => Connect::FailedPrecondition,
        ErrorCode::ContextLimitReached => Connect::ResourceExhausted,
        ErrorCode::ContextBusy | ErrorCode::ContextMismatch => Connect::FailedPrecondition,
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
pub fn from_io(cause: &io::Error, path: &str) -> ConnectError {
    use io::ErrorKind as Kind;
    match cause.kind() {
        Kind::NotFound => error(ErrorCode::NotFound, format!("`{path}` does not exist")),
        Kind::AlreadyExists => error(ErrorCode::AlreadyExists, format!("`{path}` exists already")),
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => error(
            ErrorCode::PermissionDenied,
            format!("`{path}` may not be accessed"),
        ),
        Kind::IsADirectory => is_a_directory(path),
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
        _ if is(cause, &[Errno::LOOP]) => error(
            ErrorCode::InvalidPath,
            format!("`{path}` is a link that leads in circles"),
        ),
        Kind::InvalidFilename => error(ErrorCode::InvalidPath, "the path is too long"),
        Kind::CrossesDevices => error(
            ErrorCode::InvalidPath,
            format!("`{path}` is on another file system"),
        ),
        Kind::InvalidInput => error(
            ErrorCode::InvalidPath,
            format!("`{path}` cannot be used for this"),
        ),
        Kind::ExecutableFileBusy | Kind::ResourceBusy => {
            error(ErrorCode::PermissionDenied, format!("`{path}` is in use"))
        }
        Kind::OutOfMemory => exhausted(),
        _ if is(cause, &[Errno::MFILE, Errno::NFILE, Errno::NOMEM]) => exhausted(),
        // A device that nobody serves, or a socket.
        _ if is(cause, &[Errno::NXIO, Errno::NODEV]) => not_regular(path),
        _ => error(ErrorCode::Internal, format!("`{path}`: {}", cause.kind())),
    }
}

fn is(cause: &io::Error, errnos: &[Errno]) -> bool {
    errnos
        .iter()
        .any(|errno| cause.raw_os_error() == Some(errno.raw_os_error()))
}

fn exhausted() -> ConnectError {
    error(
        ErrorCode::SandboxExhausted,
        "the sandbox has no memory or open files left",
    )
}

pub fn not_regular(path: &str) -> ConnectError {
    error(
        ErrorCode::NotARegularFile,
        format!("`{path}` is not a regular file"),
    )
}

pub fn is_a_directory(path: &str) -> ConnectError {
    error(ErrorCode::IsADirectory, format!("`{path}` is a directory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_has_a_stable_code() {
        for (errno, code) in [
            (Errno::NOENT, ErrorCode::NotFound),
            (Errno::EXIST, ErrorCode::AlreadyExists),
            (Errno::ACCESS, ErrorCode::PermissionDenied),
            (Errno::PERM, ErrorCode::PermissionDenied),
            (Errno::ROFS, ErrorCode::PermissionDenied),
            (Errno::TXTBSY, ErrorCode::PermissionDenied),
            (Errno::BUSY, ErrorCode::PermissionDenied),
            (Errno::ISDIR, ErrorCode::IsADirectory),
            (Errno::NOTDIR, ErrorCode::NotADirectory),
            (Errno::NOTEMPTY, ErrorCode::DirectoryNotEmpty),
            (Errno::NOSPC, ErrorCode::NoSpace),
            (Errno::DQUOT, ErrorCode::NoSpace),
            (Errno::FBIG, ErrorCode::NoSpace),
            (Errno::LOOP, ErrorCode::InvalidPath),
            (Errno::NAMETOOLONG, ErrorCode::InvalidPath),
            (Errno::INVAL, ErrorCode::InvalidPath),
            (Errno::XDEV, ErrorCode::InvalidPath),
            (Errno::NXIO, ErrorCode::NotARegularFile),
            (Errno::MFILE, ErrorCode::SandboxExhausted),
            (Errno::NOMEM, ErrorCode::SandboxExhausted),
            (Errno::IO, ErrorCode::Internal),
        ] {
            let shown = error(code, "");
            let found = from_io(&errno.into(), "f");
            assert_eq!(
                (found.code, &found.details[0].value),
                (shown.code, &shown.details[0].value),
                "{errno:?}"
            );
        }
    }
}
