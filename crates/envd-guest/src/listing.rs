//! A tree of the sandbox, as far as it can be had in one answer.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use connectrpc::ConnectError;
use guest_parts::error::error;
use sandbox_core::ErrorCode;
use sandbox_wire::filesystem::EntryInfo;
use tokio::time::Instant;

use crate::{
    envd::{Envd, is_folder},
    words::attached,
};

/// Deeper than anybody's project, and no depth that somebody makes on purpose.
const MAX_DEPTH: u32 = 64;
/// Names below a longer path cannot be asked for.
const MAX_PATH_BYTES: usize = 4096 - 256;
/// Entries that are held at once.
const MAX_ENTRIES: usize = 300_000;

/// What is below a folder, by path relative to it.
pub(crate) struct Listing {
    pub entries: BTreeMap<PathBuf, EntryInfo>,
    /// There is more than was seen.
    pub is_partial: bool,
}

/// The path of an entry below `root`, when it is one.
fn below(root: &Path, entry: &EntryInfo) -> Option<PathBuf> {
    let path = Path::new(&entry.path).strip_prefix(root).ok()?;
    let is_clean = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (is_clean && !path.as_os_str().is_empty()).then(|| path.to_owned())
}

impl Envd {
    /// Of a folder that is there; in one answer where it fits into one, else folder by
    /// folder until `until`.
    pub(crate) async fn tree(
        &self,
        root: &Path,
        shown: &str,
        until: Instant,
    ) -> Result<Listing, ConnectError> {
        match self.list(root, MAX_DEPTH, shown).await {
            Ok(found) => {
                let mut listing = Listing {
                    is_partial: found.len() > MAX_ENTRIES,
                    entries: BTreeMap::new(),
                };
                for entry in found.into_iter().take(MAX_ENTRIES) {
                    let Some(path) = below(root, &entry) else {
                        continue;
                    };
                    // What is in it is not told.
                    listing.is_partial |= is_folder(&entry)
                        && (path.components().count() >= MAX_DEPTH as usize
                            || entry.path.len() > MAX_PATH_BYTES);
                    listing.entries.insert(path, entry);
                }
                Ok(listing)
            }
            Err(cause) if is_final(&cause) => Err(cause),
            // Too large, or a folder in it that envd cannot read.
            Err(_) => self.by_folder(root, shown, until).await,
        }
    }

    async fn by_folder(
        &self,
        root: &Path,
        shown: &str,
        until: Instant,
    ) -> Result<Listing, ConnectError> {
        let mut listing = Listing {
            entries: BTreeMap::new(),
            is_partial: false,
        };
        let mut open = vec![(root.to_owned(), 1)];
        while let Some((folder, depth)) = open.pop() {
            if Instant::now() >= until || listing.entries.len() >= MAX_ENTRIES {
                listing.is_partial = true;
                break;
            }
            let found = match self.list(&folder, 1, shown).await {
                Ok(found) => found,
                Err(cause) if folder == root => return Err(cause),
                // It has gone, may be closed, or is too large by itself.
                Err(_) => {
                    listing.is_partial = true;
                    continue;
                }
            };
            for entry in found {
                let Some(path) = below(root, &entry) else {
                    continue;
                };
                if is_folder(&entry) {
                    match depth < MAX_DEPTH {
                        true => open.push((root.join(&path), depth + 1)),
                        false => listing.is_partial = true,
                    }
                }
                listing.entries.insert(path, entry);
            }
        }
        Ok(listing)
    }
}

/// Of the folder itself, or of the sandbox.
fn is_final(cause: &ConnectError) -> bool {
    match attached(cause) {
        Some(code) => matches!(
            code,
            ErrorCode::NotFound | ErrorCode::NotADirectory | ErrorCode::SandboxLost
        ),
        None => true,
    }
}

/// Of a single folder, in the order of names.
pub(crate) async fn names(
    envd: &Envd,
    folder: &Path,
    shown: &str,
) -> Result<BTreeMap<String, EntryInfo>, ConnectError> {
    let found = envd.list(folder, 1, shown).await?;
    if found.len() > MAX_ENTRIES {
        return Err(error(
            ErrorCode::TooLarge,
            format!("`{shown}` has too many entries"),
        ));
    }
    let entries = found.into_iter().filter_map(|entry| {
        let path = below(folder, &entry)?;
        // One name, and not a way somewhere else.
        let name = path.to_str().filter(|name| !name.contains('/'))?;
        Some((name.to_owned(), entry))
    });
    Ok(entries.collect())
}
