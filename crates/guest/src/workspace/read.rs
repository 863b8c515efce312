//! Reading files.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use buffa_types::google::protobuf::Timestamp;
use connectrpc::ConnectError;
use guest_parts::lines::{Wanted, read_page};
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{FileInfo, ReadBytesRequest, ReadLinesRequest, ReadLinesResponse};

use super::open::open;
use crate::{
    blocking::{Caller, blocking},
    error::{error, from_io},
    path,
};

const CHUNK_BYTES: u64 = 64 * 1024;
/// Most text of one answer, whatever was asked for.
const MAX_TEXT_BYTES: u64 = 64 * 1024 * 1024;
/// The years 1 to 9999, outside which the protocol has no times.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

pub(crate) fn modified(found: &Metadata) -> Timestamp {
    Timestamp {
        seconds: found.mtime().clamp(*SECONDS.start(), *SECONDS.end()),
        nanos: i32::try_from(found.mtime_nsec()).unwrap_or(0),
        ..Default::default()
    }
}

pub(super) fn read_lines(
    workspace: &Path,
    request: &ReadLinesRequest,
    caller: &Caller,
) -> Result<ReadLinesResponse, ConnectError> {
    let file = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &file);
    let (file, found) = open(&file, OpenOptions::new().read(true), &shown)?;
    let wanted = Wanted {
        offset: request.offset.max(1),
        limit: request.limit,
        max_bytes: usize::try_from(request.max_bytes.min(MAX_TEXT_BYTES)).unwrap_or(usize::MAX),
    };
    // Not what is added meanwhile: a file may grow as fast as it is read.
    let page = read_page(file.take(found.len()), &wanted, || !caller.is_gone())
        .map_err(|cause| from_io(&cause, &shown))?
        .ok_or_else(|| {
            error(
                ErrorCode::NotText,
                format!("`{shown}` is not UTF-8 text; /read_binary reads it"),
            )
        })?;
    caller.check()?;
    Ok(ReadLinesResponse {
        path: shown,
        offset: wanted.offset,
        lines: page.lines,
        total_lines: page.total,
        truncated: page.cut || (wanted.offset - 1).saturating_add(page.lines) < page.total,
        content: page.content,
        size_bytes: found.len(),
        ..Default::default()
    })
}

/// Opens a file at the part that is wanted.
pub(super) fn open_bytes(
    workspace: &Path,
    request: &ReadBytesRequest,
) -> Result<(FileInfo, Chunks), ConnectError> {
    let file = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &file);
    let (file, found) = open(&file, OpenOptions::new().read(true), &shown)?;
    let size = found.len();
    let (offset, length) = if request.from_end {
        let length = request.length.unwrap_or(size).min(size);
        (size - length, length)
    } else {
        let offset = request.offset.min(size);
        let length = request.length.unwrap_or(u64::MAX);
        (offset, length.min(size - offset))
    };
    let info = FileInfo {
        path: shown,
        size_bytes: size,
        modified: modified(&found).into(),
        etag: etag(&found),
        ..Default::default()
    };
    Ok((info, Chunks::new(file, offset, length)?))
}

fn etag(found: &Metadata) -> String {
    format!(
        "{:x}-{:x}-{:x}.{:x}-{:x}.{:x}",
        found.ino(),
        found.len(),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec()
    )
}

fn failed(cause: &std::io::Error) -> ConnectError {
    from_io(cause, "the file")
}

/// A part of a file, read only as it is asked for.
pub(crate) struct Chunks {
    file: File,
    left: u64,
}

impl Chunks {
    pub fn new(mut file: File, offset: u64, length: u64) -> Result<Self, ConnectError> {
        file.seek(SeekFrom::Start(offset))
            .map_err(|cause| failed(&cause))?;
        Ok(Self { file, left: length })
    }

    /// The next chunk and those after it; a file that has become shorter ends early.
    pub async fn next(mut self) -> Result<Option<(Vec<u8>, Self)>, ConnectError> {
        if self.left == 0 {
            return Ok(None);
        }
        blocking(move |_| {
            let size = self.left.min(CHUNK_BYTES);
            let mut data = Vec::with_capacity(size as usize);
            (&mut self.file)
                .take(size)
                .read_to_end(&mut data)
                .map_err(|cause| failed(&cause))?;
            self.left -= data.len() as u64;
            Ok((!data.is_empty()).then_some((data, self)))
        })
        .await
    }
}
