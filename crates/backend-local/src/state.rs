//! The state directory: what is in it, and whether sandboxes can reach it.
//!
//! ```text
//! <state>            0711  a sandbox's host user may pass, not look
//!   workspaces/<id>  0700  each its own sandbox's
//!   trash/           0700  workspaces on their way out or in
//!   rootfs/          0755  what every sandbox sees of /etc
//! ```

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use sandbox_backend::Problem;

use crate::error::{Context as _, Result};

#[derive(Clone, Debug)]
pub(crate) struct StateDir {
    pub root: PathBuf,
    pub workspaces: PathBuf,
    pub trash: PathBuf,
    pub rootfs: PathBuf,
}

impl StateDir {
    pub fn open(root: &Path) -> Result<Self> {
        make_dir(root, 0o711)?;
        // Links are resolved once, here, and never again below.
        let root = root
            .canonicalize()
            .context(|| format!("failed to find `{}`", root.display()))?;
        let state = Self {
            workspaces: root.join("workspaces"),
            trash: root.join("trash"),
            rootfs: root.join("rootfs"),
            root,
        };
        make_dir(&state.workspaces, 0o711)?;
        make_dir(&state.trash, 0o700)?;
        make_dir(&state.rootfs, 0o755)?;
        Ok(state)
    }
}

/// Makes a directory with exactly this mode, whatever the umask.
pub(crate) fn make_dir(path: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(path)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .context(|| format!("failed to make the directory `{}`", path.display()))
}

/// The first directory on the way to `path` that other users cannot pass.
pub(crate) fn impassable(path: &Path) -> io::Result<Option<PathBuf>> {
    for dir in path.ancestors().skip(1) {
        if fs::metadata(dir)?.permissions().mode() & 0o001 == 0 {
            return Ok(Some(dir.to_owned()));
        }
    }
    Ok(None)
}

/// Whether a sandbox that runs as another user reaches its workspace and its guest.
pub(crate) fn reach_problems(state: &StateDir, guest: &Path) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, what) in [
        (state.workspaces.as_path(), "the state directory"),
        (guest, "the guest's program"),
    ] {
        match impassable(path) {
            Ok(None) => {}
            Ok(Some(dir)) => {
                tracing::warn!(dir = %dir.display(), "sandboxes cannot pass `{}`", dir.display());
                problems.push(Problem::new(
                    format!("sandboxes run as users of their own and cannot reach {what}"),
                    "set state_dir (SANDBOX_STATE_DIR) to a directory that everybody can pass, \
                     such as /var/lib/sandboxd; or allow passing with chmod o+x on each directory \
                     above it (the log names the first that is closed)",
                ));
            }
            Err(error) => problems.push(Problem::new(
                format!("{what} cannot be looked at: {}", error.kind()),
                "see that state_dir (SANDBOX_STATE_DIR) exists and belongs to the service",
            )),
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_closed_to_others_is_found() {
        let top = tempfile::tempdir().unwrap();
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let closed = top.path().join("closed");
        make_dir(&closed, 0o700).unwrap();
        let state = StateDir::open(&closed.join("state")).unwrap();
        assert_eq!(
            impassable(&state.workspaces).unwrap(),
            Some(closed.canonicalize().unwrap())
        );
        let guest = state.root.join("guest");
        assert_eq!(reach_problems(&state, &guest).len(), 2);
        make_dir(&closed, 0o711).unwrap();
        assert_eq!(impassable(&state.workspaces).unwrap(), None);
        assert_eq!(reach_problems(&state, &guest), []);
    }

    #[test]
    fn the_state_directory_is_passable_but_not_readable() {
        let top = tempfile::tempdir().unwrap();
        let state = StateDir::open(&top.path().join("state")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(
            [&state.root, &state.workspaces, &state.trash, &state.rootfs].map(|path| mode(path)),
            [0o711, 0o711, 0o700, 0o755]
        );
    }
}
