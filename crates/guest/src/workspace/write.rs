//! Writing and editing files.

use std::{
    fs::{self, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{EditRequest, EditResponse, WriteRequest, WriteResponse};

use super::open::{open, replace};
use crate::{
    error::{error, from_io, not_regular},
    path,
};

const DEFAULT_MODE: u32 = 0o644;
/// Largest file that is edited.
const MAX_EDIT_BYTES: u64 = 32 * 1024 * 1024;

pub(super) fn write(
    workspace: &Path,
    request: &WriteRequest,
) -> Result<WriteResponse, ConnectError> {
    let file = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &file);
    if file == workspace {
        return Err(error(
            ErrorCode::IsADirectory,
            "the path is the workspace itself",
        ));
    }
    if request.create_dirs
        && let Some(parent) = file.parent()
    {
        fs::create_dir_all(parent).map_err(|cause| from_io(&cause, &shown))?;
    }
    let before = fs::metadata(&file).ok();
    if let Some(before) = &before {
        if before.is_dir() {
            return Err(error(
                ErrorCode::IsADirectory,
                format!("`{shown}` is a directory"),
            ));
        }
        if !before.is_file() {
            return Err(not_regular(&shown));
        }
    }
    let size = if request.append {
        let mut options = OpenOptions::new();
        let mode = if request.mode == 0 {
            DEFAULT_MODE
        } else {
            request.mode & 0o777
        };
        let (mut open, _) = open(&file, options.append(true).create(true).mode(mode), &shown)?;
        open.write_all(&request.data)
            .map_err(|cause| from_io(&cause, &shown))?;
        open.metadata()
            .map_err(|cause| from_io(&cause, &shown))?
            .len()
    } else {
        let mode = match (&before, request.mode) {
            (Some(before), 0) => before.permissions().mode() & 0o777,
            (None, 0) => DEFAULT_MODE,
            (_, mode) => mode & 0o777,
        };
        replace(&file, &request.data, mode, &shown)?;
        request.data.len() as u64
    };
    Ok(WriteResponse {
        path: shown,
        size_bytes: size,
        created: before.is_none(),
        ..Default::default()
    })
}

pub(super) fn edit(workspace: &Path, request: &EditRequest) -> Result<EditResponse, ConnectError> {
    let file = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &file);
    if request.old_string.is_empty() {
        return Err(error(ErrorCode::InvalidRequest, "old_string is empty"));
    }
    let (open, found) = open(&file, OpenOptions::new().read(true), &shown)?;
    if found.len() > MAX_EDIT_BYTES {
        return Err(error(
            ErrorCode::TooLarge,
            format!("`{shown}` is larger than 32 MiB"),
        ));
    }
    let mut text = String::new();
    open.take(MAX_EDIT_BYTES)
        .read_to_string(&mut text)
        .map_err(|cause| match cause.kind() {
            std::io::ErrorKind::InvalidData => {
                error(ErrorCode::NotText, format!("`{shown}` is not UTF-8 text"))
            }
            _ => from_io(&cause, &shown),
        })?;
    let count = text.matches(&request.old_string).count();
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
    let text = text.replace(&request.old_string, &request.new_string);
    let mode = found.permissions().mode() & 0o777;
    replace(&file, text.as_bytes(), mode, &shown)?;
    Ok(EditResponse {
        path: shown,
        replacements: u32::try_from(count).unwrap_or(u32::MAX),
        ..Default::default()
    })
}
