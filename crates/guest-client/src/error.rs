//! The guest's errors as ours.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use buffa::Message as _;
use connectrpc::{ConnectError, ErrorCode as Connect};
use sandbox_core::{Error, ErrorCode};
use sandbox_wire::sandbox::v1::ErrorInfo;

/// Longest message of a guest that is shown to a client.
const MAX_MESSAGE_CHARS: usize = 1000;

/// The `code` that our own services attach to each of their errors.
fn attached_code(error: &ConnectError) -> Option<ErrorCode> {
    error.details.iter().find_map(|detail| {
        if !detail.type_url.ends_with("sandbox.v1.ErrorInfo") {
            return None;
        }
        let bytes = STANDARD_NO_PAD
            .decode(detail.value.as_deref()?.trim_end_matches('='))
            .ok()?;
        let info = ErrorInfo::decode_from_slice(&bytes).ok()?;
        ErrorCode::from_name(&info.code)
    })
}

pub(crate) fn from_guest(error: ConnectError) -> Error {
    let message: String = error
        .message
        .as_deref()
        .unwrap_or("the sandbox refused the call")
        .chars()
        .take(MAX_MESSAGE_CHARS)
        .collect();
    if let Some(code) = attached_code(&error) {
        return Error::new(code, message);
    }
    match error.code {
        Connect::InvalidArgument | Connect::FailedPrecondition => {
            Error::new(ErrorCode::InvalidRequest, message)
        }
        Connect::NotFound => Error::new(ErrorCode::NotFound, message),
        Connect::AlreadyExists => Error::new(ErrorCode::AlreadyExists, message),
        Connect::PermissionDenied => Error::new(ErrorCode::PermissionDenied, message),
        Connect::ResourceExhausted => Error::new(ErrorCode::SandboxExhausted, message),
        Connect::DeadlineExceeded => {
            Error::new(ErrorCode::Timeout, "the sandbox did not answer in time")
        }
        // A guest that dies takes its streams with it: the transport's error,
        // or a stream that ends without its last frame.
        _ => Error::new(ErrorCode::SandboxLost, "the sandbox ended during the call")
            .with_source(error),
    }
}
