//! Whole trees as tar (POSIX.1-2001 pax and GNU): what one may hold, and how it is read.
//!
//! An archive is somebody's input: it is unpacked beside the workspace, each
//! entry checked before it is written, and moved into place when all of it is
//! there. Until then nothing has changed.

pub mod compression;
pub mod pipe;
pub mod plan;
pub mod unpack;

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;

use crate::error::error;

fn invalid(detail: impl Into<String>) -> ConnectError {
    error(ErrorCode::InvalidArchive, detail)
}
