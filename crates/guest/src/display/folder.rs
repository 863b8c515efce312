//! The folder through which a run displays.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, unlinkat};
use uuid::Uuid;

use super::{
    item::Item,
    watch::{Watch, Watcher},
};
use crate::{own_folder, workspace::remove::remove_all};

const RUNS: &str = "runs";
/// Names that are looked at together.
const MAX_NAMES: usize = 1024;
/// Of the description of one item.
const MAX_ITEM_BYTES: u64 = 2 * 1024 * 1024;
/// How long its removal may take; a program may have filled it.
const REMOVE_LIMIT: Duration = Duration::from_secs(1);

/// Removed, with all it holds, when dropped.
pub(super) struct Folder {
    path: PathBuf,
    name: String,
    runs: OwnedFd,
    dir: OwnedFd,
    is_gone: bool,
}

impl Folder {
    pub fn make(workspace: &Path) -> io::Result<Self> {
        let name = Uuid::now_v7().to_string();
        let runs = match own_folder::open(workspace, &[RUNS]) {
            Ok(runs) => runs,
            Err(_) => own_folder::make(workspace, &[RUNS])?,
        };
        let dir = own_folder::make_in(&runs, &name)?;
        let path = workspace.join(own_folder::NAME).join(RUNS).join(&name);
        Ok(Self {
            path,
            name,
            runs,
            dir,
            is_gone: false,
        })
    }

    /// As programs know it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn watch(&self, watcher: &Watcher) -> io::Result<Watch> {
        watcher.watch(&self.dir)
    }

    /// Removes it if there is nothing in it, as in most; whether it is gone.
    pub fn remove_empty(&mut self) -> bool {
        self.is_gone = unlinkat(&self.runs, self.name.as_str(), AtFlags::REMOVEDIR).is_ok();
        self.is_gone
    }

    /// Names of items, the oldest first.
    pub fn items(&self) -> Vec<String> {
        let Ok(entries) = Dir::read_from(&self.dir) else {
            return Vec::new();
        };
        let mut names: Vec<_> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name.ends_with(".json") && !name.starts_with('.'))
            .take(MAX_NAMES)
            .collect();
        names.sort_unstable();
        names
    }

    /// Reads an item and removes its description; whether that went is told, too.
    pub fn take(&self, name: &str) -> (Item, bool) {
        let item = self.read(name);
        let removed = unlinkat(&self.dir, name, AtFlags::empty()).is_ok();
        (item.unwrap_or(Item::Unknown), removed)
    }

    fn read(&self, name: &str) -> io::Result<Item> {
        let file = self.open(name)?;
        let mut text = Vec::new();
        file.take(MAX_ITEM_BYTES + 1).read_to_end(&mut text)?;
        if text.len() as u64 > MAX_ITEM_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(serde_json::from_slice(&text)?)
    }

    /// Opens a regular file in it: a link is not followed, a FIFO not waited for.
    pub fn open(&self, name: &str) -> io::Result<File> {
        if name.contains('/') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat(&self.dir, name, flags, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(file.into()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Takes away a file of an item that has been sent.
    pub fn remove(&self, name: &str) {
        if !name.contains('/') {
            let _ = unlinkat(&self.dir, name, AtFlags::empty());
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_gone {
            return;
        }
        let until = Instant::now() + REMOVE_LIMIT;
        let runs = self.runs.as_raw_fd();
        let path = PathBuf::from(format!("/proc/self/fd/{runs}/{}", self.name));
        let _ = remove_all(&path, || Instant::now() < until);
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn it_goes_with_all_it_holds_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("f"), "x").unwrap();
        let folder = Folder::make(dir.path()).unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        symlink(outside.path(), folder.path().join("link")).unwrap();
        // What is moved in its place is not it.
        let runs = dir.path().join(".sandbox/runs");
        let moved = dir.path().join("moved");
        fs::rename(&runs, &moved).unwrap();
        symlink(outside.path(), &runs).unwrap();
        fs::create_dir(outside.path().join(&folder.name)).unwrap();
        let name = folder.name.clone();
        drop(folder);
        assert_eq!(fs::read_dir(moved).unwrap().count(), 0);
        assert!(outside.path().join("f").exists());
        assert!(outside.path().join(name).exists());
    }

    #[test]
    fn only_regular_files_of_its_own_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::make(dir.path()).unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(
            dir.path().join("secret.json"),
            r#"{"type":"saved","path":"x"}"#,
        )
        .unwrap();
        symlink(dir.path().join("secret.json"), at("link.json")).unwrap();
        fs::create_dir(at("dir.json")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(at("fifo.json"))
            .status();
        assert!(made.unwrap().success());
        fs::write(at("large.json"), vec![b' '; 3 << 20]).unwrap();
        fs::write(at("deep.json"), "[".repeat(100_000)).unwrap();
        fs::write(at("good.json"), r#"{"type":"saved","path":"x"}"#).unwrap();
        fs::write(at(".hidden.json"), "").unwrap();
        fs::write(at("other"), "").unwrap();
        let names = folder.items();
        assert_eq!(
            names,
            [
                "deep.json",
                "dir.json",
                "fifo.json",
                "good.json",
                "large.json",
                "link.json"
            ]
        );
        let read: Vec<_> = names
            .iter()
            .filter(|name| folder.take(name).0 != Item::Unknown)
            .collect();
        assert_eq!(read, ["good.json"]);
        // A folder cannot be taken away, and is told to be there still.
        assert_eq!(folder.items(), ["dir.json"]);
        assert!(!folder.take("dir.json").1);
        assert!(folder.open("../../secret.json").is_err());
        assert!(dir.path().join("secret.json").exists());
    }
}
