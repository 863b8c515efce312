//! What envd says went wrong, as the guest would say it.
//!
//! envd has a handful of codes and passes on what the kernel said as text, behind the
//! last colon. Its words are a stranger's: they choose among errors, and are not shown.

use std::io;

use connectrpc::{ConnectError, ErrorCode as Connect};
use guest_parts::error::{error, from_io, is_a_directory, not_regular};
use http::StatusCode;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::ErrorInfo;

/// strerror(3) as Go has it, and Rust's names for the same kinds.
const KERNEL: [(&str, i32); 20] = [
    ("no such file or directory", 2),
    ("does not exist", 2),
    ("permission denied", 13),
    ("operation not permitted", 1),
    ("file exists", 17),
    ("cross-device link", 18),
    ("not a directory", 20),
    ("is a directory", 21),
    ("invalid argument", 22),
    ("text file busy", 26),
    ("file too large", 27),
    ("no space left on device", 28),
    ("not enough disk space available", 28),
    ("not enough inodes available", 28),
    ("read-only file system", 30),
    ("file name too long", 36),
    ("directory not empty", 39),
    ("too many levels of symbolic links", 40),
    ("too many links", 40),
    ("disk quota exceeded", 122),
];

fn kernel(words: &str) -> Option<io::Error> {
    let words = words.trim_end().to_ascii_lowercase();
    // The end alone: what stands before it names paths, which users choose.
    let said = KERNEL.iter().find(|(said, _)| words.ends_with(said));
    said.map(|(_, errno)| io::Error::from_raw_os_error(*errno))
}

/// The code that an envd attaches which is a guest of ours.
pub(crate) fn attached(cause: &ConnectError) -> Option<ErrorCode> {
    use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
    use buffa::Message as _;
    cause.details.iter().find_map(|detail| {
        let value = detail.value.as_deref()?.trim_end_matches('=');
        let bytes = STANDARD_NO_PAD.decode(value).ok()?;
        let info = ErrorInfo::decode_from_slice(&bytes).ok()?;
        ErrorCode::from_name(&info.code)
    })
}

fn coded(code: ErrorCode, shown: &str) -> Option<ConnectError> {
    let errno = match code {
        ErrorCode::NotFound => 2,
        ErrorCode::AlreadyExists => 17,
        ErrorCode::PermissionDenied => 13,
        ErrorCode::NotADirectory => 20,
        ErrorCode::DirectoryNotEmpty => 39,
        ErrorCode::NoSpace => 28,
        ErrorCode::InvalidPath => 22,
        ErrorCode::SandboxExhausted => 12,
        ErrorCode::IsADirectory => return Some(is_a_directory(shown)),
        ErrorCode::NotARegularFile => return Some(not_regular(shown)),
        ErrorCode::TooLarge => {
            return Some(error(code, format!("`{shown}` has too many entries")));
        }
        _ => return None,
    };
    Some(from_io(&io::Error::from_raw_os_error(errno), shown))
}

/// Of a call about a path.
pub(crate) fn of_path(cause: &ConnectError, shown: &str) -> ConnectError {
    if let Some(known) = attached(cause).and_then(|code| coded(code, shown)) {
        return known;
    }
    let words = cause.message.as_deref().unwrap_or_default();
    let errno = match cause.code {
        Connect::NotFound => 2,
        Connect::AlreadyExists => 17,
        Connect::PermissionDenied => 13,
        Connect::FailedPrecondition => 40,
        Connect::ResourceExhausted => {
            return error(
                ErrorCode::TooLarge,
                format!("`{shown}` has more entries than one answer takes"),
            );
        }
        Connect::Internal | Connect::InvalidArgument | Connect::Unknown | Connect::Aborted => {
            if let Some(said) = kernel(words) {
                return from_io(&said, shown);
            }
            let lower = words.to_ascii_lowercase();
            match () {
                () if lower.contains("not a directory") => 20,
                () if cause.code == Connect::InvalidArgument => 22,
                () => return strange(cause),
            }
        }
        _ => return of_call(cause),
    };
    from_io(&io::Error::from_raw_os_error(errno), shown)
}

/// Of a call that failed for no reason of its path.
pub(crate) fn of_call(cause: &ConnectError) -> ConnectError {
    match cause.code {
        Connect::DeadlineExceeded | Connect::Canceled => ConnectError::new(
            Connect::DeadlineExceeded,
            "the sandbox did not answer in time",
        ),
        Connect::Unavailable => {
            ConnectError::unavailable("the sandbox cannot be reached, or has ended")
        }
        _ => strange(cause),
    }
}

/// What a caller can do nothing about; for the log.
fn strange(cause: &ConnectError) -> ConnectError {
    let words: String = cause.to_string().chars().take(300).collect();
    tracing::warn!(error = %words.escape_debug(), "envd answered with an error that is not understood");
    error(
        ErrorCode::Internal,
        "the sandbox's envd answered with an error that is not understood",
    )
}

/// Of an answer of `/files`.
pub(crate) fn of_status(status: StatusCode, words: &str, shown: &str) -> ConnectError {
    if let Some(said) = kernel(words) {
        return from_io(&said, shown);
    }
    let has = |text: &str| words.contains(text);
    let errno = match status {
        StatusCode::NOT_FOUND => 2,
        StatusCode::INSUFFICIENT_STORAGE => 28,
        StatusCode::BAD_REQUEST if has("is not a regular file") => return not_regular(shown),
        StatusCode::BAD_REQUEST if has("is a directory") => return is_a_directory(shown),
        StatusCode::BAD_REQUEST if has("not a directory") => 20,
        StatusCode::BAD_REQUEST => 22,
        StatusCode::FORBIDDEN => 13,
        StatusCode::INTERNAL_SERVER_ERROR if has("not a directory") => 20,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            return of_call(&ConnectError::unavailable(""));
        }
        _ => return strange(&ConnectError::unknown(format!("{status}: {words}"))),
    };
    from_io(&io::Error::from_raw_os_error(errno), shown)
}

/// Of an answer that is not what it should be.
pub(crate) fn lies(what: &str) -> ConnectError {
    tracing::warn!("envd sent {what}");
    error(
        ErrorCode::SandboxLost,
        "the sandbox's envd does not keep to its contract",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(error: &ConnectError) -> ErrorCode {
        attached(error).unwrap()
    }

    #[test]
    fn what_go_says_of_the_kernel_has_a_stable_code() {
        for (words, wanted) in [
            (
                "error renaming: rename /a /b: file exists",
                ErrorCode::AlreadyExists,
            ),
            (
                "error renaming: rename /a /b: directory not empty",
                ErrorCode::DirectoryNotEmpty,
            ),
            (
                "error removing file or directory: unlinkat /a: permission denied",
                ErrorCode::PermissionDenied,
            ),
            ("path is not a directory: /a", ErrorCode::NotADirectory),
            (
                "error getting file info: lstat /a/b: not a directory",
                ErrorCode::NotADirectory,
            ),
            (
                "something about a folder named permission denied/x",
                ErrorCode::Internal,
            ),
        ] {
            let found = of_path(&ConnectError::internal(words), "f");
            assert_eq!(code(&found), wanted, "{words}");
            assert!(!found.message.unwrap().contains("/a"));
        }
        let found = of_path(&ConnectError::not_found("file not found: lstat /a"), "f");
        assert_eq!(code(&found), ErrorCode::NotFound);
        let full = of_status(StatusCode::INSUFFICIENT_STORAGE, "", "f");
        assert_eq!(code(&full), ErrorCode::NoSpace);
    }
}
