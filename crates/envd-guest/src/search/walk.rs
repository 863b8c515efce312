//! Walking through a listing in the order of names, and never through a link.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::Instant,
};

use connectrpc::ConnectError;
use guest_parts::search::ignored::{self, Ignored, MAX_FILE_BYTES};
use ignore::overrides::Override;
use sandbox_wire::filesystem::EntryInfo;

use crate::{
    envd::{is_file, is_folder, size},
    state::State,
};

/// Folders whose rules are read; a sandbox may have very many of them.
const MAX_RULES: usize = 1000;

/// What is left out.
pub(super) struct Choice {
    pub hidden: bool,
    pub no_ignore: bool,
    pub filter: Override,
}

/// Files, links and all else that is no folder.
pub(super) struct Walked {
    pub files: Vec<(PathBuf, EntryInfo)>,
    pub is_partial: bool,
}

type Folder = BTreeMap<OsString, EntryInfo>;

struct Walk<'a> {
    state: &'a State,
    choice: Choice,
    folders: BTreeMap<PathBuf, Folder>,
    ignored: Ignored,
    until: Instant,
    rules_left: usize,
    found: Walked,
}

/// What is below a folder, as far as it can be seen until `until`.
pub(super) async fn walk(
    state: &State,
    root: &Path,
    shown: &str,
    choice: Choice,
    until: Instant,
) -> Result<Walked, ConnectError> {
    let listing = state.envd.tree(root, shown, until.into()).await?;
    let mut folders: BTreeMap<PathBuf, Folder> = BTreeMap::new();
    for (path, entry) in listing.entries {
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
            let folder = folders.entry(parent.to_owned()).or_default();
            folder.insert(name.to_owned(), entry);
        }
    }
    let mut walk = Walk {
        state,
        choice,
        folders,
        ignored: Ignored::default(),
        until,
        rules_left: MAX_RULES,
        found: Walked {
            files: Vec::new(),
            is_partial: listing.is_partial,
        },
    };
    if !walk.choice.no_ignore {
        for folder in ignored::above(&state.workspace, root) {
            let (plain, git) = tokio::join!(
                rules_above(state, folder, ".ignore"),
                rules_above(state, folder, ".gitignore"),
            );
            walk.ignored.enter(folder, &plain, &git);
        }
    }
    walk.all(root).await;
    Ok(walk.found)
}

/// Empty where there is no such file.
async fn rules_above(state: &State, folder: &Path, name: &str) -> Vec<u8> {
    match state.envd.file(&folder.join(name), name).await {
        Ok((path, entry)) => read(state, &path, &entry).await,
        Err(_) => Vec::new(),
    }
}

async fn read(state: &State, path: &Path, entry: &EntryInfo) -> Vec<u8> {
    let size = size(entry);
    if size == 0 || size > MAX_FILE_BYTES {
        return Vec::new();
    }
    match state.envd.download(path, 0..size, size, "rules").await {
        Ok(download) => download.collect().await.unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

/// A folder that is being walked through.
struct Open {
    below: PathBuf,
    names: std::collections::btree_map::IntoIter<OsString, EntryInfo>,
}

impl Walk<'_> {
    /// Not by recursion: a tree is as deep as a program likes.
    async fn all(&mut self, root: &Path) {
        let mut open = Vec::new();
        open.push(self.enter(root, PathBuf::new()).await);
        while let Some(folder) = open.last_mut() {
            let Some((name, entry)) = folder.names.next() else {
                self.ignored.leave(&root.join(&folder.below));
                open.pop();
                continue;
            };
            if Instant::now() >= self.until {
                self.found.is_partial = true;
                return;
            }
            let below = folder.below.join(&name);
            let path = root.join(&below);
            if self.is_left_out(&name, &path, is_folder(&entry)) {
                continue;
            }
            if is_folder(&entry) {
                open.push(self.enter(root, below).await);
            } else {
                self.found.files.push((path, entry));
            }
        }
    }

    fn is_left_out(&self, name: &OsStr, path: &Path, is_folder: bool) -> bool {
        (!self.choice.hidden && name.as_bytes().starts_with(b"."))
            || self.choice.filter.matched(path, is_folder).is_ignore()
            || self.ignored.matches(path, is_folder)
    }

    async fn enter(&mut self, root: &Path, below: PathBuf) -> Open {
        let folder = self.folders.remove(&below).unwrap_or_default();
        if !self.choice.no_ignore {
            let path = root.join(&below);
            let plain = self.rules(&path, &folder, ".ignore").await;
            let git = self.rules(&path, &folder, ".gitignore").await;
            self.ignored.enter(&path, &plain, &git);
        }
        Open {
            below,
            names: folder.into_iter(),
        }
    }

    async fn rules(&mut self, folder: &Path, names: &Folder, name: &str) -> Vec<u8> {
        let Some(entry) = names.get(OsStr::new(name)) else {
            return Vec::new();
        };
        if self.rules_left == 0 {
            self.found.is_partial = true;
            return Vec::new();
        }
        self.rules_left -= 1;
        match is_file(entry) {
            true => read(self.state, &folder.join(name), entry).await,
            false => rules_above(self.state, folder, name).await,
        }
    }
}
