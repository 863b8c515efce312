//! What .gitignore and .ignore say.
//!
//! The `ignore` crate is given their text and does not read them: it opens whatever has
//! the name, waits for a FIFO and reads a device to its end.

use std::path::{Path, PathBuf};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use super::is_too_complex;
/// A larger file says nothing.
pub const MAX_FILE_BYTES: u64 = 64 * 1024;
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
pub struct Ignored(Vec<Rules>);

impl Ignored {
    /// Takes the rules of `dir`, which is below the last folder entered: the text of its
    /// .ignore and of its .gitignore, empty where there is none.
    pub fn enter(&mut self, dir: &Path, plain: &[u8], git: &[u8]) {
        if self.0.len() >= MAX_FILES {
            return;
        }
        let (plain, git) = (parse(dir, plain), parse(dir, git));
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

/// A line that is broken says nothing.
fn parse(dir: &Path, text: &[u8]) -> Gitignore {
    let mut rules = GitignoreBuilder::new(dir);
    for line in String::from_utf8_lossy(text).lines() {
        if !is_too_complex(line) {
            let _ = rules.add_line(None, line);
        }
    }
    rules.build().unwrap_or_else(|_| Gitignore::empty())
}

/// The folders whose rules count in `dir` beside its own, the outermost first.
pub fn above<'a>(workspace: &Path, dir: &'a Path) -> Vec<&'a Path> {
    let mut folders: Vec<_> = dir
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.starts_with(workspace))
        .collect();
    folders.reverse();
    folders
}
