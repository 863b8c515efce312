//! Walking through a folder in the order of names, and never through a link.

use std::{
    ffi::OsString,
    fs::{self, FileType, OpenOptions},
    io::Read as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    vec,
};

use guest_parts::search::{
    Limit,
    ignored::{self, Ignored, MAX_FILE_BYTES},
};
use ignore::overrides::Override;

use crate::workspace::open::open;

/// Names that are held at once; of a folder with more only so many are seen.
const MAX_NAMES: usize = 500_000;

/// What is left out.
pub(super) struct Choice {
    pub hidden: bool,
    pub no_ignore: bool,
    pub filter: Override,
}

/// Files, links and all else that is no folder.
pub(super) struct Walk<'a> {
    limit: &'a Limit<'a>,
    choice: Choice,
    ignored: Ignored,
    folders: Vec<Folder>,
    names_held: usize,
    is_partial: bool,
}

struct Folder {
    path: PathBuf,
    names: vec::IntoIter<(OsString, FileType)>,
}

pub(super) struct Found {
    pub path: PathBuf,
    pub kind: FileType,
}

impl<'a> Walk<'a> {
    pub fn new(workspace: &Path, root: PathBuf, choice: Choice, limit: &'a Limit<'a>) -> Self {
        let mut ignored = Ignored::default();
        if !choice.no_ignore {
            for folder in ignored::above(workspace, &root) {
                enter(&mut ignored, folder);
            }
        }
        let mut walk = Self {
            limit,
            choice,
            ignored,
            folders: Vec::new(),
            names_held: 0,
            is_partial: false,
        };
        walk.enter(root);
        walk
    }

    /// Whether there was more than has been seen.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    fn enter(&mut self, path: PathBuf) {
        // It may have gone, may be closed, or its path is too long to be opened.
        let Ok(entries) = fs::read_dir(&path) else {
            return;
        };
        let mut names = Vec::new();
        for entry in entries.flatten() {
            if self.names_held + names.len() >= MAX_NAMES || self.limit.reached() {
                self.is_partial = true;
                break;
            }
            let name = entry.file_name();
            if !self.choice.hidden && name.as_bytes().starts_with(b".") {
                continue;
            }
            if let Ok(kind) = entry.file_type() {
                names.push((name, kind));
            }
        }
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.names_held += names.len();
        if !self.choice.no_ignore {
            enter(&mut self.ignored, &path);
        }
        self.folders.push(Folder {
            path,
            names: names.into_iter(),
        });
    }
}

fn enter(ignored: &mut Ignored, dir: &Path) {
    ignored.enter(
        dir,
        &read(&dir.join(".ignore")),
        &read(&dir.join(".gitignore")),
    );
}

/// Empty where there is no such file.
fn read(path: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    if let Ok((file, found)) = open(path, OpenOptions::new().read(true), "")
        && found.len() <= MAX_FILE_BYTES
    {
        let _ = file.take(MAX_FILE_BYTES).read_to_end(&mut text);
    }
    text
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let folder = self.folders.last_mut()?;
            let Some((name, kind)) = folder.names.next() else {
                self.ignored.leave(&folder.path);
                self.folders.pop();
                continue;
            };
            self.names_held -= 1;
            if self.limit.reached() {
                self.is_partial = true;
                return None;
            }
            let path = folder.path.join(name);
            if self.choice.filter.matched(&path, kind.is_dir()).is_ignore()
                || self.ignored.matches(&path, kind.is_dir())
            {
                continue;
            }
            if kind.is_dir() {
                self.enter(path);
            } else {
                return Some(Found { path, kind });
            }
        }
    }
}
