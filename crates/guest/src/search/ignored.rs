//! What .gitignore and .ignore say.
//!
//! They are read here and not by the `ignore` crate, which opens whatever has
//! the name, waits for a FIFO and reads a device to its end.

use std::{
    ffi::OsStr,
    fs::OpenOptions,
    io::Read as _,
    path::{Path, PathBuf},
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use super::is_too_complex;
use crate::workspace::open::open;

const MAX_FILE_BYTES: u64 = 64 * 1024;
/// Files that count at once, those of the folder and of the folders above it.
const MAX_FILES: usize = 64;

/// The rules of one folder.
struct Rules {
    dir: PathBuf,
    /// .ignore, whose word counts more than that of any .gitignore.
    plain: Gitignore,
    git: Gitignore,
}

/// The rules of a folder and of those above it.
#[derive(Default)]
pub(super) struct Ignored(Vec<Rules>);

impl Ignored {
    /// Reads the rules of the folders from `workspace` down to the one above `dir`.
    pub fn above(workspace: &Path, dir: &Path) -> Self {
        let mut ignored = Self::default();
        let mut folders: Vec<_> = dir
            .ancestors()
            .skip(1)
            .take_while(|folder| folder.starts_with(workspace))
            .collect();
        folders.reverse();
        for folder in folders {
            ignored.enter(folder);
        }
        ignored
    }

    /// Reads the rules of `dir`, which is below the last folder entered.
    pub fn enter(&mut self, dir: &Path) {
        if self.0.len() >= MAX_FILES {
            return;
        }
        let plain = read(dir, ".ignore");
        let git = read(dir, ".gitignore");
        if !plain.is_empty() || !git.is_empty() {
            self.0.push(Rules {
                dir: dir.to_owned(),
                plain,
                git,
            });
        }
    }

    /// Forgets the rules of `dir`, if it is the last folder entered that has any.
    pub fn leave(&mut self, dir: &Path) {
        self.0.pop_if(|rules| rules.dir == dir);
    }

    pub fn matches(&self, path: &Path, is_dir: bool) -> bool {
        let last_word = |rules: fn(&Rules) -> &Gitignore| {
            self.0
                .iter()
                .rev()
                .find_map(|of_dir| match rules(of_dir).matched(path, is_dir) {
                    Match::None => None,
                    Match::Ignore(_) => Some(true),
                    Match::Whitelist(_) => Some(false),
                })
        };
        last_word(|rules| &rules.plain)
            .or_else(|| last_word(|rules| &rules.git))
            .unwrap_or(false)
    }
}

/// A file that is none, or that is broken, says nothing.
fn read(dir: &Path, name: impl AsRef<OsStr>) -> Gitignore {
    let path = dir.join(name.as_ref());
    let mut text = Vec::new();
    if let Ok((file, found)) = open(&path, OpenOptions::new().read(true), "")
        && found.len() <= MAX_FILE_BYTES
    {
        let _ = file.take(MAX_FILE_BYTES).read_to_end(&mut text);
    }
    let mut rules = GitignoreBuilder::new(dir);
    for line in String::from_utf8_lossy(&text).lines() {
        if !is_too_complex(line) {
            let _ = rules.add_line(None, line);
        }
    }
    rules.build().unwrap_or_else(|_| Gitignore::empty())
}
