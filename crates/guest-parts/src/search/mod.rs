//! Search by content and by name, without the files.

pub mod glob;
pub mod grep;
pub mod ignored;
mod matches;

use std::time::Instant;

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;

use crate::error::error;

const MAX_GLOB_BYTES: usize = 4096;
/// Braces within braces; `globset` recurses into them without a bound.
const MAX_GLOB_DEPTH: usize = 16;

/// When a search must end.
pub struct Limit<'a> {
    until: Instant,
    is_pointless: &'a dyn Fn() -> bool,
}

impl<'a> Limit<'a> {
    /// At `until`, or when nobody waits for it any more.
    pub fn new(until: Instant, is_pointless: &'a dyn Fn() -> bool) -> Self {
        Self {
            until,
            is_pointless,
        }
    }

    pub fn reached(&self) -> bool {
        (self.is_pointless)() || Instant::now() >= self.until
    }
}

pub fn invalid_pattern(cause: impl ToString) -> ConnectError {
    error(ErrorCode::InvalidPattern, cause.to_string())
}

pub fn is_too_complex(glob: &str) -> bool {
    let mut depth = 0_usize;
    let deepest = glob.bytes().fold(0, |deepest: usize, byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest.max(depth)
    });
    glob.len() > MAX_GLOB_BYTES || deepest > MAX_GLOB_DEPTH
}

pub fn check_glob(glob: &str) -> Result<(), ConnectError> {
    if is_too_complex(glob) {
        return Err(invalid_pattern(
            "the glob is longer than 4096 bytes, or its braces are nested too deep",
        ));
    }
    Ok(())
}
