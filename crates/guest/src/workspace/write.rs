//! Writing and editing files.

use std::{
    fs::OpenOptions,
    io::{Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use connectrpc::ConnectError;
use guest_parts::edit::{self, MAX_EDIT_BYTES};
use sandbox_wire::sandbox::v1::{EditRequest, EditResponse, WriteRequest, WriteResponse};

use super::{
    open::{make_parents, open},
    replace::{DEFAULT_MODE, Replacement},
};
use crate::{
    error::{from_io, is_a_directory},
    path,
};

pub(super) fn write(
    workspace: &Path,
    request: &WriteRequest,
) -> Result<WriteResponse, ConnectError> {
    let file = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &file);
    if file == workspace {
        return Err(is_a_directory(&shown));
    }
    if request.create_dirs {
        make_parents(&file, &shown)?;
    }
    let (size_bytes, created) = if request.append {
        append(&file, request, &shown)?
    } else {
        let mut replacement = Replacement::create(&file, &shown)?;
        let created = !replacement.replaces();
        replacement.write(&request.data)?;
        replacement.put(request.mode)?;
        (request.data.len() as u64, created)
    };
    Ok(WriteResponse {
        path: shown,
        size_bytes,
        created,
        ..Default::default()
    })
}

/// The size afterwards, and whether there was no such file.
fn append(path: &Path, request: &WriteRequest, shown: &str) -> Result<(u64, bool), ConnectError> {
    let fail = |cause| from_io(&cause, shown);
    let created = std::fs::metadata(path).is_err();
    let mode = match request.mode & 0o777 {
        0 => DEFAULT_MODE,
        mode => mode,
    };
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(mode);
    let (mut file, _) = open(path, &mut options, shown)?;
    file.write_all(&request.data).map_err(fail)?;
    Ok((file.metadata().map_err(fail)?.len(), created))
}

pub(super) fn edit(workspace: &Path, request: &EditRequest) -> Result<EditResponse, ConnectError> {
    let path = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &path);
    edit::check(request)?;
    let text = read_text(&path, &shown)?;
    let (text, replacements) = edit::edited(&text, request, &shown)?;
    let mut replacement = Replacement::create(&path, &shown)?;
    replacement.write(text.as_bytes())?;
    replacement.put(0)?;
    Ok(EditResponse {
        path: shown,
        replacements,
        ..Default::default()
    })
}

fn read_text(path: &Path, shown: &str) -> Result<String, ConnectError> {
    let (file, found) = open(path, OpenOptions::new().read(true), shown)?;
    if found.len() > MAX_EDIT_BYTES {
        return Err(edit::too_large(shown));
    }
    let mut text = String::new();
    let read = file
        .take(MAX_EDIT_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|cause| match cause.kind() {
            std::io::ErrorKind::InvalidData => edit::not_text(shown),
            _ => from_io(&cause, shown),
        })?;
    // It has grown: what was not read would be lost.
    if read as u64 > MAX_EDIT_BYTES {
        return Err(edit::too_large(shown));
    }
    Ok(text)
}
