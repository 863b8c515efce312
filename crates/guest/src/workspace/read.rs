//! Reading files.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use buffa_types::google::protobuf::Timestamp;
use connectrpc::ConnectError;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{FileInfo, ReadBytesRequest, ReadLinesRequest, ReadLinesResponse};

use super::open::open;
use crate::{
    error::{error, from_io},
    path,
};

/// A line that is longer than this makes a file none of text.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

pub(crate) fn modified(found: &Metadata) -> Timestamp {
    Timestamp {
        seconds: found.mtime(),
        nanos: i32::try_from(found.mtime_nsec()).unwrap_or(0),
        ..Default::default()
    }
}

pub(super) fn read_lines(
    workspace: &Path,
    request: &ReadLinesRequest,
) -> Result<ReadLinesResponse, ConnectError> {
    let file = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &file);
    let (file, found) = open(&file, OpenOptions::new().read(true), &shown)?;
    let not_text = || {
        error(
            ErrorCode::NotText,
            format!("`{shown}` is not UTF-8 text; /read_binary reads it"),
        )
    };
    let offset = request.offset.max(1);
    let mut content = String::new();
    let (mut lines, mut total) = (0, 0);
    let mut cut = false;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .map_err(|cause| from_io(&cause, &shown))?;
        if read == 0 {
            break;
        }
        if line.contains(&0) || read as u64 == MAX_LINE_BYTES {
            return Err(not_text());
        }
        let text = std::str::from_utf8(&line).map_err(|_| not_text())?;
        total += 1;
        if total < offset || lines >= request.limit || cut {
            continue;
        }
        let room = usize::try_from(request.max_bytes).unwrap_or(usize::MAX) - content.len();
        if text.len() > room {
            // Of a line that does not fit a part is better than nothing.
            if content.is_empty() {
                content.push_str(&text[..text.floor_char_boundary(room)]);
                lines += 1;
            }
            cut = true;
            continue;
        }
        content.push_str(text);
        lines += 1;
    }
    Ok(ReadLinesResponse {
        path: shown,
        content,
        offset,
        lines,
        total_lines: total,
        truncated: cut || (offset - 1).saturating_add(lines) < total,
        size_bytes: found.len(),
        ..Default::default()
    })
}

/// Opens a file at the part that is wanted; gives how much of it that is.
pub(super) fn open_bytes(
    workspace: &Path,
    request: &ReadBytesRequest,
) -> Result<(FileInfo, File, u64), ConnectError> {
    let file = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &file);
    let (mut file, found) = open(&file, OpenOptions::new().read(true), &shown)?;
    let size = found.len();
    let (offset, length) = if request.from_end {
        let length = request.length.unwrap_or(size).min(size);
        (size - length, length)
    } else {
        let offset = request.offset.min(size);
        (
            offset,
            request.length.unwrap_or(u64::MAX).min(size - offset),
        )
    };
    file.seek(SeekFrom::Start(offset))
        .map_err(|cause| from_io(&cause, &shown))?;
    let info = FileInfo {
        path: shown,
        size_bytes: size,
        modified: modified(&found).into(),
        etag: format!(
            "{:x}-{:x}-{:x}-{:x}",
            found.ino(),
            size,
            found.mtime() * 1_000_000_000 + found.mtime_nsec(),
            found.ctime() * 1_000_000_000 + found.ctime_nsec()
        ),
        ..Default::default()
    };
    Ok((info, file, length))
}
