//! Folders: listing, moving, removing, and how much there is. A link is an entry like any
//! other and is never followed.

use std::{path::Path, time::Duration};

use connectrpc::ConnectError;
use guest_parts::{
    error::{error, from_io},
    path,
};
use sandbox_core::ErrorCode;
use sandbox_wire::{
    filesystem::{EntryInfo, FileType},
    sandbox::v1::{
        Entry, EntryKind, ListEntriesRequest, ListEntriesResponse, RemoveEntryRequest,
        RemoveEntryResponse, RenameRequest, RenameResponse, UsageResponse,
    },
};
use serde::Deserialize;
use tokio::time::Instant;

use crate::{
    envd::{is_folder, is_link, size},
    listing::names,
    state::State,
};

/// Most entries of one listing, whatever was asked for.
const MAX_ENTRIES: usize = 100_000;
/// A larger workspace is counted in part, and said to be.
const USAGE_LIMIT: Duration = Duration::from_secs(5);

pub(super) async fn list(
    state: &State,
    request: &ListEntriesRequest,
) -> Result<ListEntriesResponse, ConnectError> {
    let (dir, shown) = state.path(&request.path)?;
    let found = state.envd.folder(&dir, &shown).await?;
    let all = names(&state.envd, &found, &shown).await?;
    let max = usize::try_from(request.max_entries)
        .unwrap_or(usize::MAX)
        .min(MAX_ENTRIES);
    let truncated = all.len() > max;
    let entries = all.into_iter().take(max).map(|(name, entry)| {
        let path = path::shown(&state.workspace, &dir.join(&name));
        shown_entry(name, path, entry)
    });
    Ok(ListEntriesResponse {
        path: shown,
        entries: entries.collect(),
        truncated,
        ..Default::default()
    })
}

fn kind(entry: &EntryInfo) -> EntryKind {
    match entry.r#type.as_known() {
        _ if is_link(entry) => EntryKind::ENTRY_KIND_SYMLINK,
        Some(FileType::FILE_TYPE_FILE) => EntryKind::ENTRY_KIND_FILE,
        Some(FileType::FILE_TYPE_DIRECTORY) => EntryKind::ENTRY_KIND_DIRECTORY,
        _ => EntryKind::ENTRY_KIND_OTHER,
    }
}

fn shown_entry(name: String, path: String, entry: EntryInfo) -> Entry {
    Entry {
        name,
        path,
        kind: kind(&entry).into(),
        size_bytes: size(&entry),
        mode: entry.mode & 0o7777,
        modified: entry.modified_time,
        symlink_target: entry.symlink_target,
        ..Default::default()
    }
}

fn not_the_workspace(state: &State, file: &Path) -> Result<(), ConnectError> {
    if file == state.workspace {
        return Err(error(
            ErrorCode::InvalidPath,
            "the path is the workspace itself",
        ));
    }
    Ok(())
}

pub(super) async fn remove(
    state: &State,
    request: &RemoveEntryRequest,
) -> Result<RemoveEntryResponse, ConnectError> {
    let (file, shown) = state.path(&request.path)?;
    not_the_workspace(state, &file)?;
    // envd removes what is not there without a word, and folders with all they hold.
    let entry = state.envd.stat(&file, &shown).await?;
    if is_folder(&entry) && !request.recursive {
        if !names(&state.envd, &file, &shown).await?.is_empty() {
            return Err(from_io(
                &std::io::ErrorKind::DirectoryNotEmpty.into(),
                &shown,
            ));
        }
        state.envd.remove_folder(&file, &shown).await?;
    } else {
        state.envd.remove_all(&file, &shown).await?;
    }
    Ok(RemoveEntryResponse::default())
}

pub(super) async fn rename(
    state: &State,
    request: &RenameRequest,
) -> Result<RenameResponse, ConnectError> {
    let (source, from) = state.path(&request.source)?;
    let (destination, shown) = state.path(&request.destination)?;
    not_the_workspace(state, &source)?;
    not_the_workspace(state, &destination)?;
    let moved = state.envd.stat(&source, &from).await?;
    if destination.starts_with(&source) && destination != source {
        return Err(error(
            ErrorCode::InvalidPath,
            "a folder cannot be moved into itself",
        ));
    }
    // envd knows no move that leaves what is there, so that a program can still come
    // between the look and the move.
    if let Some(there) = state.envd.exists(&destination, &shown).await? {
        let kind = match (is_folder(&moved), is_folder(&there)) {
            _ if !request.overwrite => Some(std::io::ErrorKind::AlreadyExists),
            (false, true) => Some(std::io::ErrorKind::IsADirectory),
            (true, false) => Some(std::io::ErrorKind::NotADirectory),
            _ => None,
        };
        if let Some(kind) = kind {
            return Err(from_io(&kind.into(), &shown));
        }
    }
    state.envd.rename(&source, &destination, &shown).await?;
    Ok(RenameResponse {
        path: shown,
        ..Default::default()
    })
}

/// What is told of the whole sandbox.
#[derive(Default, Deserialize)]
struct Metrics {
    mem_used: Option<u64>,
}

pub(super) async fn usage(state: &State) -> Result<UsageResponse, ConnectError> {
    let until = Instant::now() + USAGE_LIMIT;
    let listing = state.envd.tree(&state.workspace, "the workspace", until);
    let metrics = state.envd.get_json::<Metrics>("/metrics");
    let (listing, metrics) = tokio::join!(listing, metrics);
    let listing = listing?;
    // Of links and folders, too; blocks are not told.
    let bytes = listing.entries.values().map(size);
    Ok(UsageResponse {
        disk_bytes: bytes.fold(0, u64::saturating_add),
        entries: listing.entries.len() as u64,
        complete: !listing.is_partial,
        memory_bytes: metrics.unwrap_or_default().mem_used,
        ..Default::default()
    })
}
