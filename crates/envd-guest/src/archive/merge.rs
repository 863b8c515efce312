//! Moving what was unpacked into place: all of it, or nothing is changed.
//!
//! A folder that is not there yet is moved whole, so that an archive into a new folder
//! costs one move, however many files it has.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use connectrpc::ConnectError;
use guest_parts::{
    archive::plan::{Plan, Planned},
    error::{error, from_io, is_a_directory},
    path,
};
use sandbox_core::ErrorCode;
use tokio::time::Instant;

use super::import::{Staging, or_nothing};
use crate::{envd::is_folder, state::State};

/// How long it may take to look what is there.
const LOOK_LIMIT: Duration = Duration::from_secs(60);

/// One change, to be undone.
enum Done {
    Made(PathBuf),
    /// What was there before is kept at the second path.
    Moved(PathBuf, PathBuf),
}

/// Puts what is unpacked into `into`; what it replaces is kept until all is done.
pub(super) async fn merge(
    state: &State,
    plan: &Plan,
    staging: &Staging,
    into: &Path,
    shown: &str,
) -> Result<(), ConnectError> {
    let there = there(state, into, shown).await?;
    for (path, planned) in plan.entries() {
        check(state, planned, there.get(path), &into.join(path))?;
    }
    let mut merging = Merging {
        state,
        plan,
        staged: staging.unpacked(),
        replaced: staging.replaced(),
        into,
        there,
        made: BTreeSet::new(),
        done: Vec::new(),
    };
    match merging.all(shown).await {
        Ok(()) => Ok(()),
        Err(cause) => {
            merging.undo().await;
            Err(cause)
        }
    }
}

/// Whether each that is below `into` is a folder; nothing where there is no `into`.
async fn there(
    state: &State,
    into: &Path,
    shown: &str,
) -> Result<BTreeMap<PathBuf, bool>, ConnectError> {
    let Some(found) = or_nothing(state.envd.folder(into, shown).await)? else {
        return Ok(BTreeMap::new());
    };
    let listing = state
        .envd
        .tree(&found, shown, Instant::now() + LOOK_LIMIT)
        .await?;
    if listing.is_partial {
        return Err(error(
            ErrorCode::TooLarge,
            format!("`{shown}` has more entries than an archive can be put among"),
        ));
    }
    let kinds = listing.entries.into_iter();
    Ok(kinds
        .map(|(path, entry)| (path, is_folder(&entry)))
        .collect())
}

fn check(
    state: &State,
    planned: &Planned,
    is_folder: Option<&bool>,
    place: &Path,
) -> Result<(), ConnectError> {
    let shown = path::shown(&state.workspace, place);
    match (planned, is_folder) {
        // A folder is never reached through a link that is there.
        (Planned::Folder(_), Some(false)) => {
            Err(from_io(&std::io::ErrorKind::NotADirectory.into(), &shown))
        }
        (Planned::File | Planned::Link(_), Some(true)) => Err(is_a_directory(&shown)),
        _ => Ok(()),
    }
}

struct Merging<'a> {
    state: &'a State,
    plan: &'a Plan,
    staged: PathBuf,
    replaced: PathBuf,
    into: &'a Path,
    there: BTreeMap<PathBuf, bool>,
    /// Folders that were moved or made whole, so that nothing in them need be.
    made: BTreeSet<PathBuf>,
    done: Vec<Done>,
}

impl Merging<'_> {
    async fn all(&mut self, shown: &str) -> Result<(), ConnectError> {
        let envd = &self.state.envd;
        // What has no file in it was not made by an upload.
        for (path, planned) in self.plan.entries() {
            if matches!(planned, Planned::Folder(_)) && self.is_empty_folder(path) {
                envd.make_folder(&self.staged.join(path), shown).await?;
            }
        }
        self.set_modes(shown).await?;
        self.make_links(shown).await?;
        if or_nothing(envd.folder(self.into, shown).await)?.is_none() {
            envd.make_folder(self.into, shown).await?;
            self.done.push(Done::Made(self.into.to_owned()));
        }
        let plan = self.plan;
        for (n, path) in plan.entries().keys().enumerate() {
            if path
                .ancestors()
                .skip(1)
                .any(|above| self.made.contains(above))
            {
                continue;
            }
            self.put(n, path).await?;
        }
        Ok(())
    }

    /// Nothing but links is planned in it.
    fn is_empty_folder(&self, folder: &Path) -> bool {
        let below = self.plan.entries().range(folder.to_owned()..).skip(1);
        !below
            .take_while(|(path, _)| path.starts_with(folder))
            .any(|(_, planned)| *planned == Planned::File)
    }

    async fn set_modes(&self, shown: &str) -> Result<(), ConnectError> {
        let mut by_mode: BTreeMap<u32, Vec<PathBuf>> = BTreeMap::new();
        for (path, planned) in self.plan.entries() {
            if let Planned::Folder(Some(mode)) = planned
                && !self.there.contains_key(path)
            {
                // Its owner can always look into it, and take it away.
                let mode = (mode & 0o777) | 0o700;
                by_mode
                    .entry(mode)
                    .or_default()
                    .push(self.staged.join(path));
            }
        }
        for (mode, paths) in by_mode {
            let paths: Vec<_> = paths.iter().map(PathBuf::as_path).collect();
            self.state.envd.set_mode(&paths, mode, shown).await?;
        }
        Ok(())
    }

    /// Beside the files: links come last, so nothing was written through one.
    async fn make_links(&self, shown: &str) -> Result<(), ConnectError> {
        let links = self.plan.entries().iter().filter_map(|(path, planned)| {
            let Planned::Link(target) = planned else {
                return None;
            };
            Some((target.as_path(), self.staged.join(path)))
        });
        let links: Vec<_> = links.collect();
        if links.is_empty() {
            return Ok(());
        }
        let parents: BTreeSet<_> = links
            .iter()
            .filter_map(|(_, place)| place.parent())
            .collect();
        for parent in parents {
            if or_nothing(self.state.envd.stat(parent, shown).await)?.is_none() {
                self.state.envd.make_folder(parent, shown).await?;
            }
        }
        let pairs: Vec<_> = links
            .iter()
            .map(|(target, place)| (*target, place.as_path()))
            .collect();
        self.state.envd.link(&pairs, shown).await
    }

    async fn put(&mut self, n: usize, path: &Path) -> Result<(), ConnectError> {
        let place = self.into.join(path);
        let shown = path::shown(&self.state.workspace, &place);
        let envd = &self.state.envd;
        match self.there.get(path) {
            Some(true) => return Ok(()),
            Some(false) => {
                let kept = self.replaced.join(n.to_string());
                envd.rename(&place, &kept, &shown).await?;
                self.done.push(Done::Moved(place.clone(), kept));
            }
            None => {}
        }
        envd.rename(&self.staged.join(path), &place, &shown).await?;
        self.done.push(Done::Made(place));
        self.made.insert(path.to_owned());
        Ok(())
    }

    async fn undo(self) {
        for change in self.done.into_iter().rev() {
            // Nothing more can be done for what cannot be undone.
            let _ = match change {
                Done::Made(place) => self.state.envd.remove_all(&place, "").await,
                Done::Moved(place, kept) => {
                    self.state.envd.rename(&kept, &place, "").await.map(drop)
                }
            };
        }
    }
}
