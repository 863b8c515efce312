//! The sandboxes' directories and the host users they belong to.
//!
//! The owner of a workspace *is* the record of its sandbox's host user: there is
//! nothing else that could disagree with it after a crash.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    ops::RangeInclusive,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, chown},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use sandbox_core::SandboxId;

use crate::{
    error::{Context as _, Failure, Result},
    state::StateDir,
    tree::remove_tree,
};

type Owners = BTreeMap<SandboxId, u32>;

pub(crate) struct Workspaces {
    state: StateDir,
    /// Absent where the service is an ordinary user: then all are its own.
    uid_range: Option<RangeInclusive<u32>>,
    /// Held for a few file operations, never across an await.
    owners: Mutex<Owners>,
}

/// A directory for one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workspace {
    pub path: PathBuf,
    /// The host user to run as, if it is not the service's own.
    pub user: Option<u32>,
}

impl Workspaces {
    pub fn open(state: &StateDir, uid_range: Option<RangeInclusive<u32>>) -> Result<Self> {
        let mut owners = Owners::new();
        for (id, path) in entries(&state.workspaces)? {
            let metadata = fs::symlink_metadata(&path)
                .context(|| format!("failed to look at `{}`", path.display()))?;
            owners.insert(id, metadata.uid());
        }
        Ok(Self {
            state: state.clone(),
            uid_range,
            owners: Mutex::new(owners),
        })
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The workspace of `id`, made if there is none.
    pub fn take(&self, id: &SandboxId) -> Result<Workspace> {
        let path = self.state.workspaces.join(id.as_str());
        let mut owners = self.owners();
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.is_dir() => {
                return Err(Failure::new(format!(
                    "`{}` is no directory",
                    path.display()
                )));
            }
            Ok(found) => self.check_owner(&owners, id, found.uid())?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let uid = self.make(&owners, &path)?;
                owners.insert(id.clone(), uid);
            }
            Err(error) => {
                return Err(Failure::because(
                    format!("failed to look at `{}`", path.display()),
                    error,
                ));
            }
        }
        let user = match self.uid_range {
            None => None,
            Some(_) => owners.get(id).copied(),
        };
        Ok(Workspace { path, user })
    }

    fn check_owner(&self, owners: &Owners, id: &SandboxId, uid: u32) -> Result<()> {
        let ok = match &self.uid_range {
            None => uid == rustix::process::geteuid().as_raw(),
            // Never run as a user that an account may have: root least of all.
            Some(range) => {
                range.contains(&uid)
                    && owners.get(id) == Some(&uid)
                    && owners.values().filter(|other| **other == uid).count() == 1
            }
        };
        if ok {
            Ok(())
        } else {
            Err(Failure::new(format!(
                "the workspace of `{id}` belongs to the host's user {uid}, \
                 which is outside uid_range or another sandbox's"
            )))
        }
    }

    /// Makes an empty workspace and gives its owner.
    fn make(&self, owners: &Owners, path: &Path) -> Result<u32> {
        let user = match &self.uid_range {
            None => None,
            Some(range) => Some(
                lowest_free(range.clone(), owners)
                    .ok_or_else(|| Failure::new("uid_range has no free user left"))?,
            ),
        };
        let fresh = self.trash_name("new")?;
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&fresh)
            .context(|| format!("failed to make `{}`", fresh.display()))?;
        if user.is_some() {
            chown(&fresh, user, user)
                .context(|| format!("failed to give `{}` away", fresh.display()))?;
        }
        // Only now does it get its name: a workspace that exists has its owner.
        fs::rename(&fresh, path).context(|| format!("failed to make `{}`", path.display()))?;
        Ok(user.unwrap_or_else(|| rustix::process::geteuid().as_raw()))
    }

    /// Removes the workspace of `id`; its name and user are free at once.
    pub fn remove(&self, id: &SandboxId) -> Result<()> {
        let path = self.state.workspaces.join(id.as_str());
        let trashed = self.trash_name(id.as_str())?;
        {
            let mut owners = self.owners();
            match fs::rename(&path, &trashed) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => {
                    return Err(Failure::because(
                        format!("failed to remove `{}`", path.display()),
                        error,
                    ));
                }
            }
            owners.remove(id);
        }
        remove_tree(&trashed).context(|| format!("failed to remove `{}`", trashed.display()))
    }

    pub fn list(&self) -> Vec<SandboxId> {
        self.owners().keys().cloned().collect()
    }

    /// A name in the trash that was never used, not by an earlier service either.
    fn trash_name(&self, prefix: &str) -> Result<PathBuf> {
        let random = "/proc/sys/kernel/random/uuid";
        let uuid = fs::read_to_string(random).context(|| format!("failed to read `{random}`"))?;
        Ok(self.state.trash.join(format!("{prefix}.{}", uuid.trim())))
    }
}

/// What an earlier service did not come to remove.
pub(crate) fn trash_left(state: &StateDir) -> Result<Vec<PathBuf>> {
    let trash = &state.trash;
    let found = fs::read_dir(trash).context(|| format!("failed to read `{}`", trash.display()))?;
    Ok(found.flatten().map(|entry| entry.path()).collect())
}

fn entries(dir: &Path) -> Result<Vec<(SandboxId, PathBuf)>> {
    let found = fs::read_dir(dir).context(|| format!("failed to read `{}`", dir.display()))?;
    let mut entries = Vec::new();
    for entry in found {
        let entry = entry.context(|| format!("failed to read `{}`", dir.display()))?;
        let name = entry.file_name();
        if let Some(id) = name.to_str().and_then(|name| name.parse().ok()) {
            entries.push((id, entry.path()));
        }
    }
    Ok(entries)
}

fn lowest_free(mut range: RangeInclusive<u32>, owners: &Owners) -> Option<u32> {
    let taken: BTreeSet<u32> = owners.values().copied().collect();
    range.find(|uid| !taken.contains(uid))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const RANGE: RangeInclusive<u32> = 1_900_000_000..=1_900_000_002;

    fn id(n: u32) -> SandboxId {
        format!("{n:032x}").parse().unwrap()
    }

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    fn range() -> Option<RangeInclusive<u32>> {
        is_root().then_some(RANGE)
    }

    fn user(n: u32) -> Option<u32> {
        is_root().then_some(RANGE.start() + n)
    }

    fn state() -> (tempfile::TempDir, StateDir) {
        let top = tempfile::tempdir().unwrap();
        let state = StateDir::open(&top.path().join("state")).unwrap();
        (top, state)
    }

    #[test]
    fn each_workspace_has_a_user_of_its_own_and_keeps_it_over_a_restart() {
        let (_top, state) = state();
        let workspaces = Workspaces::open(&state, range()).unwrap();
        let first = workspaces.take(&id(1)).unwrap();
        let second = workspaces.take(&id(2)).unwrap();
        assert_eq!((first.user, second.user), (user(0), user(1)));
        let metadata = fs::metadata(&first.path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o700);
        if let Some(uid) = user(0) {
            assert_eq!((metadata.uid(), metadata.gid()), (uid, uid));
        }
        fs::write(first.path.join("kept"), "x").unwrap();

        let restarted = Workspaces::open(&state, range()).unwrap();
        assert_eq!(restarted.take(&id(2)).unwrap(), second);
        assert_eq!(restarted.take(&id(1)).unwrap(), first);
        assert_eq!(restarted.take(&id(3)).unwrap().user, user(2));
        assert!(first.path.join("kept").exists());
        assert_eq!(restarted.list(), [id(1), id(2), id(3)]);
    }

    #[test]
    fn a_removed_workspace_frees_its_user() {
        let (_top, state) = state();
        let workspaces = Workspaces::open(&state, range()).unwrap();
        for n in 1..=3 {
            workspaces.take(&id(n)).unwrap();
        }
        if is_root() {
            assert!(workspaces.take(&id(4)).is_err(), "the range is used up");
        }
        workspaces.remove(&id(2)).unwrap();
        workspaces.remove(&id(2)).unwrap();
        assert_eq!(workspaces.take(&id(4)).unwrap().user, user(1));
        assert!(trash_left(&state).unwrap().is_empty());
    }

    #[test]
    fn a_workspace_of_a_user_outside_the_range_or_of_two_is_refused() {
        if !is_root() {
            return;
        }
        let (_top, state) = state();
        let workspaces = Workspaces::open(&state, range()).unwrap();
        let path = workspaces.take(&id(1)).unwrap().path;
        chown(&path, Some(0), Some(0)).unwrap();
        assert!(workspaces.take(&id(1)).is_err());
        let twin = workspaces.take(&id(2)).unwrap();
        chown(&path, twin.user, None).unwrap();
        let restarted = Workspaces::open(&state, range()).unwrap();
        assert!(restarted.take(&id(1)).is_err());
        assert!(restarted.take(&id(2)).is_err());
    }

    #[test]
    fn a_link_is_no_workspace() {
        let (top, state) = state();
        let workspaces = Workspaces::open(&state, range()).unwrap();
        symlink(top.path(), state.workspaces.join(id(1).as_str())).unwrap();
        assert!(workspaces.take(&id(1)).is_err());
    }
}
