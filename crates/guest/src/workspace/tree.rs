//! Folders: listing, moving, removing. A link is an entry like any other and is
//! never followed.

use std::{
    collections::BinaryHeap,
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

use super::{
    open::{check_dir, make_parents},
    read::modified,
    remove::remove_all,
};
use crate::{
    blocking::Caller,
    error::{error, from_io},
    path,
};

/// Most entries of one listing, whatever was asked for.
const MAX_ENTRIES: usize = 100_000;

pub(super) fn list(
    workspace: &Path,
    request: &ListEntriesRequest,
    caller: &Caller,
) -> Result<ListEntriesResponse, ConnectError> {
    let dir = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &dir);
    check_dir(&dir, &shown)?;
    let fail = |cause| from_io(&cause, &shown);
    let max = usize::try_from(request.max_entries)
        .unwrap_or(usize::MAX)
        .min(MAX_ENTRIES);
    // The first names only: a folder may hold more than memory does.
    let mut names = BinaryHeap::new();
    let mut truncated = false;
    for entry in fs::read_dir(&dir).map_err(fail)? {
        caller.check()?;
        names.push(entry.map_err(fail)?.file_name());
        if names.len() > max {
            names.pop();
            truncated = true;
        }
    }
    let mut entries = Vec::new();
    for name in names.into_sorted_vec() {
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
    caller: &Caller,
) -> Result<RemoveEntryResponse, ConnectError> {
    let file = path::in_workspace(workspace, &request.path)?;
    not_the_workspace(workspace, &file)?;
    let shown = path::shown(workspace, &file);
    let fail = |cause| from_io(&cause, &shown);
    if request.recursive {
        remove_all(&file, || !caller.is_gone()).map_err(fail)?;
    } else if fs::symlink_metadata(&file).map_err(fail)?.is_dir() {
        fs::remove_dir(&file).map_err(fail)?;
    } else {
        fs::remove_file(&file).map_err(fail)?;
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
    make_parents(&destination, &shown)?;
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
