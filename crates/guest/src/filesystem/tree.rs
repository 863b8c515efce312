//! Entries and folders anywhere in the sandbox. A link is an entry like any
//! other; only the folder that a listing begins with may be behind one.

use std::{fs, io};

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;
use sandbox_wire::filesystem::{
    ListDirRequest, ListDirResponse, MakeDirRequest, MakeDirResponse, MoveRequest, MoveResponse,
    RemoveRequest, RemoveResponse, StatRequest, StatResponse,
};

use super::entry::entry_info;
use crate::{
    blocking::Caller,
    error::{error, from_io},
    state::Guest,
    workspace::{
        open::{check_dir, make_parents},
        remove::remove_all,
    },
};

/// Entries of one listing.
const MAX_ENTRIES: usize = 100_000;
const MAX_DEPTH: u32 = 64;

pub(super) fn stat(
    guest: &Guest,
    request: &StatRequest,
    _: &Caller,
) -> Result<StatResponse, ConnectError> {
    let file = guest.place(&request.path)?;
    let entry = entry_info(&file).map_err(|cause| from_io(&cause, &request.path))?;
    Ok(StatResponse {
        entry: entry.into(),
        ..Default::default()
    })
}

pub(super) fn make_dir(
    guest: &Guest,
    request: &MakeDirRequest,
    _: &Caller,
) -> Result<MakeDirResponse, ConnectError> {
    let dir = guest.place(&request.path)?;
    let fail = |cause: io::Error| from_io(&cause, &request.path);
    if fs::metadata(&dir).is_ok_and(|found| !found.is_dir()) {
        return Err(error(
            ErrorCode::NotADirectory,
            format!("`{}` exists and is not a directory", request.path),
        ));
    }
    make_parents(&dir, &request.path)?;
    fs::create_dir(&dir).map_err(fail)?;
    Ok(MakeDirResponse {
        entry: entry_info(&dir).map_err(fail)?.into(),
        ..Default::default()
    })
}

pub(super) fn move_entry(
    guest: &Guest,
    request: &MoveRequest,
    _: &Caller,
) -> Result<MoveResponse, ConnectError> {
    let source = guest.place(&request.source)?;
    let destination = guest.place(&request.destination)?;
    let at_source = |cause| from_io(&cause, &request.source);
    fs::symlink_metadata(&source).map_err(at_source)?;
    make_parents(&destination, &request.destination)?;
    let at_destination = |cause| from_io(&cause, &request.destination);
    fs::rename(&source, &destination).map_err(at_destination)?;
    let entry = entry_info(&destination).map_err(at_destination)?;
    Ok(MoveResponse {
        entry: entry.into(),
        ..Default::default()
    })
}

pub(super) fn list_dir(
    guest: &Guest,
    request: &ListDirRequest,
    caller: &Caller,
) -> Result<ListDirResponse, ConnectError> {
    let root = guest.place(&request.path)?;
    check_dir(&root, &request.path)?;
    let mut entries = Vec::new();
    let mut left = vec![(root, request.depth.clamp(1, MAX_DEPTH))];
    while let Some((dir, depth)) = left.pop() {
        // A folder below may have gone, or may be closed.
        let Ok(found) = fs::read_dir(&dir) else {
            continue;
        };
        let room = MAX_ENTRIES - entries.len();
        let mut paths: Vec<_> = found
            .flatten()
            .take(room + 1)
            .map(|entry| entry.path())
            .collect();
        if paths.len() > room {
            return Err(error(
                ErrorCode::TooLarge,
                "the directory has too many entries",
            ));
        }
        paths.sort();
        for path in paths {
            caller.check()?;
            let Ok(entry) = entry_info(&path) else {
                continue;
            };
            let is_dir = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
            entries.push(entry);
            if is_dir && depth > 1 {
                left.push((path, depth - 1));
            }
        }
    }
    Ok(ListDirResponse {
        entries,
        ..Default::default()
    })
}

pub(super) fn remove(
    guest: &Guest,
    request: &RemoveRequest,
    caller: &Caller,
) -> Result<RemoveResponse, ConnectError> {
    let file = guest.place(&request.path)?;
    if guest.workspace.starts_with(&file) {
        return Err(error(
            ErrorCode::InvalidPath,
            "the path is the workspace itself, or holds it",
        ));
    }
    match remove_all(&file, || !caller.is_gone()) {
        // The contract has it that what is not there has been removed.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        removed => removed.map_err(|cause| from_io(&cause, &request.path))?,
    }
    Ok(RemoveResponse::default())
}
