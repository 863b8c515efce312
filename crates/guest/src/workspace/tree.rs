//! Folders: listing, moving, removing. A link is an entry like any other and is
//! never followed.

use std::{
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::Path,
};

use connectrpc::ConnectError;
use rustix::fs::{CWD, RenameFlags};
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{
    Entry, EntryKind, ListEntriesRequest, ListEntriesResponse, RemoveEntryRequest,
    RemoveEntryResponse, RenameRequest, RenameResponse,
};

use super::read::modified;
use crate::{
    error::{error, from_io},
    path,
};

pub(super) fn list(
    workspace: &Path,
    request: &ListEntriesRequest,
) -> Result<ListEntriesResponse, ConnectError> {
    let dir = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &dir);
    let fail = |cause| from_io(&cause, &shown);
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir).map_err(fail)? {
        names.push(entry.map_err(fail)?.file_name());
    }
    names.sort();
    let max = usize::try_from(request.max_entries).unwrap_or(usize::MAX);
    let truncated = names.len() > max;
    let mut entries = Vec::new();
    for name in names.into_iter().take(max) {
        let path = dir.join(&name);
        // It may have gone since.
        let Ok(found) = fs::symlink_metadata(&path) else {
            continue;
        };
        let kind = match found.file_type() {
            kind if kind.is_file() => EntryKind::ENTRY_KIND_FILE,
            kind if kind.is_dir() => EntryKind::ENTRY_KIND_DIRECTORY,
            kind if kind.is_symlink() => EntryKind::ENTRY_KIND_SYMLINK,
            _ => EntryKind::ENTRY_KIND_OTHER,
        };
        entries.push(Entry {
            raw_name: match name.to_str() {
                Some(_) => Vec::new(),
                None => name.as_bytes().to_vec(),
            },
            name: name.to_string_lossy().into_owned(),
            path: path::shown(workspace, &path),
            kind: kind.into(),
            size_bytes: found.len(),
            mode: found.permissions().mode() & 0o7777,
            modified: modified(&found).into(),
            symlink_target: found
                .is_symlink()
                .then(|| fs::read_link(&path).ok())
                .flatten()
                .map(|target| target.to_string_lossy().into_owned()),
            ..Default::default()
        });
    }
    Ok(ListEntriesResponse {
        path: shown,
        entries,
        truncated,
        ..Default::default()
    })
}

fn not_the_workspace(workspace: &Path, file: &Path) -> Result<(), ConnectError> {
    if file == workspace {
        return Err(error(
            ErrorCode::InvalidPath,
            "the path is the workspace itself",
        ));
    }
    Ok(())
}

pub(super) fn remove(
    workspace: &Path,
    request: &RemoveEntryRequest,
) -> Result<RemoveEntryResponse, ConnectError> {
    let file = path::in_workspace(workspace, &request.path)?;
    not_the_workspace(workspace, &file)?;
    let shown = path::shown(workspace, &file);
    let fail = |cause| from_io(&cause, &shown);
    let found = fs::symlink_metadata(&file).map_err(fail)?;
    if !found.is_dir() {
        fs::remove_file(&file).map_err(fail)?;
    } else if request.recursive {
        fs::remove_dir_all(&file).map_err(fail)?;
    } else {
        fs::remove_dir(&file).map_err(fail)?;
    }
    Ok(RemoveEntryResponse::default())
}

pub(super) fn rename(
    workspace: &Path,
    request: &RenameRequest,
) -> Result<RenameResponse, ConnectError> {
    let source = path::in_workspace(workspace, &request.source)?;
    let destination = path::in_workspace(workspace, &request.destination)?;
    not_the_workspace(workspace, &source)?;
    not_the_workspace(workspace, &destination)?;
    fs::symlink_metadata(&source)
        .map_err(|cause| from_io(&cause, &path::shown(workspace, &source)))?;
    let shown = path::shown(workspace, &destination);
    if destination.starts_with(&source) && destination != source {
        return Err(error(
            ErrorCode::InvalidPath,
            "a folder cannot be moved into itself",
        ));
    }
    if let Some(parent) = destination.parent() {
        fs::create_dir_all(parent).map_err(|cause| from_io(&cause, &shown))?;
    }
    let flags = match request.overwrite {
        true => RenameFlags::empty(),
        false => RenameFlags::NOREPLACE,
    };
    rustix::fs::renameat_with(CWD, &source, CWD, &destination, flags)
        .map_err(|errno| from_io(&errno.into(), &shown))?;
    Ok(RenameResponse {
        path: shown,
        ..Default::default()
    })
}
