//! Replacing text in a file.

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::EditRequest;

use crate::error::error;

/// Largest file that is edited, before and after.
pub const MAX_EDIT_BYTES: u64 = 32 * 1024 * 1024;

pub fn check(request: &EditRequest) -> Result<(), ConnectError> {
    if request.old_string.is_empty() {
        return Err(error(ErrorCode::InvalidRequest, "old_string is empty"));
    }
    Ok(())
}

/// The text as it shall be, and how often it was changed.
pub fn edited(
    text: &str,
    request: &EditRequest,
    shown: &str,
) -> Result<(String, u32), ConnectError> {
    let (old, new) = (&request.old_string, &request.new_string);
    let count = text.matches(old).count();
    if count == 0 {
        return Err(error(
            ErrorCode::NoMatch,
            format!("old_string is not in `{shown}` (0 matches)"),
        ));
    }
    if count > 1 && !request.replace_all {
        return Err(error(
            ErrorCode::SeveralMatches,
            format!("old_string is in `{shown}` {count} times; make it longer or set replace_all"),
        ));
    }
    // Before it is made: a short text times a long one is more than all memory.
    let size = (text.len() - count * old.len()) as u64 + count as u64 * new.len() as u64;
    if size > MAX_EDIT_BYTES {
        return Err(too_large(shown));
    }
    Ok((
        text.replace(old, new),
        u32::try_from(count).unwrap_or(u32::MAX),
    ))
}

pub fn not_text(shown: &str) -> ConnectError {
    error(ErrorCode::NotText, format!("`{shown}` is not UTF-8 text"))
}

pub fn too_large(shown: &str) -> ConnectError {
    error(
        ErrorCode::TooLarge,
        format!("`{shown}` is larger than 32 MiB, or would be"),
    )
}
