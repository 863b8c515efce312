//! The folders that outlive sandboxes, and the host users who own them.
//!
//! As root each workspace belongs to a user of its own, and that ownership is
//! the record of who has which user.

use std::{
    collections::BTreeMap,
    fs, io,
    ops::RangeInclusive,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use sandbox_core::SandboxId;

pub(crate) struct Workspaces {
    dir: PathBuf,
    trash: PathBuf,
    /// Present as root alone.
    users: Option<Mutex<Users>>,
    trashed: AtomicU64,
}

struct Users {
    range: RangeInclusive<u32>,
    taken: BTreeMap<SandboxId, u32>,
}

/// A workspace that is ready for a sandbox.
pub(crate) struct Workspace {
    pub path: PathBuf,
    /// Who owns it, where sandboxes have users of their own.
    pub uid: Option<u32>,
}

impl Workspaces {
    pub fn open(state_dir: &Path, range: RangeInclusive<u32>) -> io::Result<Self> {
        let dir = state_dir.join("workspaces");
        let trash = state_dir.join("trash");
        for (path, mode) in [(&dir, 0o711), (&trash, 0o700)] {
            fs::create_dir_all(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        // What a service that was killed had begun to remove.
        for entry in fs::read_dir(&trash)? {
            remove_tree(&entry?.path())?;
        }
        let root = rustix::process::geteuid().is_root();
        let users = root.then(|| Mutex::new(Users {
            range,
            taken: BTreeMap::new(),
        }));
        let workspaces = Self {
            dir,
            trash,
            users,
            trashed: AtomicU64::new(0),
        };
        if let Some(users) = &workspaces.users {
            let mut users = users.lock().unwrap_or_else(PoisonError::into_inner);
            for id in workspaces.list()? {
                let uid = fs::symlink_metadata(workspaces.dir.join(id.as_str()))?.uid();
                if users.range.contains(&uid) {
                    users.taken.insert(id, uid);
                }
            }
        }
        Ok(workspaces)
    }

    pub fn list(&self) -> io::Result<Vec<SandboxId>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            found.extend(name.to_str().and_then(|name| name.parse().ok()));
        }
        Ok(found)
    }

    /// Opens the sandbox's workspace, or makes it.
    pub fn claim(&self, id: &SandboxId) -> io::Result<Workspace> {
        let uid = match &self.users {
            None => None,
            Some(users) => {
                let mut users = users.lock().unwrap_or_else(PoisonError::into_inner);
                Some(users.claim(id)?)
            }
        };
        let path = self.dir.join(id.as_str());
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if let Some(uid) = uid {
            std::os::unix::fs::lchown(&path, Some(uid), Some(uid))?;
        }
        Ok(Workspace { path, uid })
    }

    /// Removes a workspace; none is fine. The id is free at once, and its user
    /// when nothing is left that belongs to it.
    pub fn remove(&self, id: &SandboxId) -> io::Result<()> {
        let path = self.dir.join(id.as_str());
        let number = self.trashed.fetch_add(1, Ordering::Relaxed);
        let trash = self.trash.join(format!("{}-{number}", id.as_str()));
        match fs::rename(&path, &trash) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        remove_tree(&trash)?;
        if let Some(users) = &self.users {
            let mut users = users.lock().unwrap_or_else(PoisonError::into_inner);
            // Unless a new sandbox of the same name has claimed it meanwhile.
            if !path.exists() {
                users.taken.remove(id);
            }
        }
        Ok(())
    }
}

impl Users {
    fn claim(&mut self, id: &SandboxId) -> io::Result<u32> {
        if let Some(uid) = self.taken.get(id) {
            return Ok(*uid);
        }
        let taken: std::collections::BTreeSet<u32> = self.taken.values().copied().collect();
        let uid = self
            .range
            .clone()
            .find(|uid| !taken.contains(uid))
            .ok_or_else(|| io::Error::other("every user of uid_range has a sandbox"))?;
        self.taken.insert(id.clone(), uid);
        Ok(uid)
    }
}

/// Removes a folder that user code had in its hands. Links are removed, never
/// followed: the standard library walks by descriptors (CVE-2022-21658).
fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // An ordinary user cannot empty a folder that has taken its own rights.
            open_folders(path)?;
            fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Nothing runs in the sandbox any more, so nobody swaps a folder for a link.
fn open_folders(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_core::SessionKey;

    fn id(name: &str) -> SandboxId {
        SessionKey::new("t".parse().unwrap(), name.parse().unwrap()).sandbox_id()
    }

    #[test]
    fn no_two_workspaces_share_a_user_even_after_a_restart() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let state = tempfile::tempdir().unwrap();
        let open = || Workspaces::open(state.path(), 1_900_000_000..=1_900_000_002).unwrap();
        let first = open();
        let uid = |workspaces: &Workspaces, name| workspaces.claim(&id(name)).unwrap().uid;
        let (a, b) = (uid(&first, "a"), uid(&first, "b"));
        assert_ne!(a, b);
        assert_eq!(uid(&first, "a"), a);
        let second = open();
        let c = uid(&second, "c");
        assert!(c != a && c != b, "{c:?}");
        assert!(second.claim(&id("d")).is_err());
        second.remove(&id("a")).unwrap();
        assert_eq!(uid(&second, "d"), a);
    }

    #[test]
    fn removal_takes_links_and_closed_folders_and_nothing_else() {
        let state = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "x").unwrap();
        let workspaces = Workspaces::open(state.path(), 1_900_000_000..=1_900_000_009).unwrap();
        let path = workspaces.claim(&id("a")).unwrap().path;
        std::os::unix::fs::symlink(outside.path(), path.join("link")).unwrap();
        fs::create_dir_all(path.join("closed/below")).unwrap();
        fs::set_permissions(path.join("closed"), fs::Permissions::from_mode(0)).unwrap();
        workspaces.remove(&id("a")).unwrap();
        assert!(!path.exists() && outside.path().join("kept").exists());
        workspaces.remove(&id("a")).unwrap();
        assert_eq!(workspaces.list().unwrap(), []);
    }
}
