//! What an archive says shall be, checked entry by entry.
//!
//! Links are made when everything else is in place, so no entry can be written
//! through one.

use std::{
    collections::BTreeMap,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use connectrpc::ConnectError;

use super::invalid;
use crate::OWN_FOLDER;

const MAX_NAME_BYTES: usize = 255;
/// Leaves room for where it is unpacked.
const MAX_PATH_BYTES: usize = 3072;
/// Of all paths together.
const MAX_PATHS_BYTES: usize = 32 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// With its mode, if an entry says one.
    Folder(Option<u32>),
    File,
    Link(PathBuf),
}

/// By path; a folder comes before what is in it.
#[derive(Default)]
pub struct Plan {
    entries: BTreeMap<PathBuf, Planned>,
    paths_bytes: usize,
    /// What is unpacked at the top of the workspace must not be the guest's own folder.
    at_top: bool,
}

impl Plan {
    pub fn new(at_top: bool) -> Self {
        Self {
            at_top,
            ..Self::default()
        }
    }

    pub fn entries(&self) -> &BTreeMap<PathBuf, Planned> {
        &self.entries
    }

    pub fn is_file(&self, path: &Path) -> bool {
        self.entries.get(path) == Some(&Planned::File)
    }

    /// The path of an entry, relative to where the archive is unpacked; empty is
    /// that place itself, and `None` is nothing that is unpacked.
    pub fn path(&self, raw: &[u8]) -> Result<Option<PathBuf>, ConnectError> {
        let shown = shown(raw);
        if raw.contains(&0) {
            return Err(invalid(format!("`{shown}` has a NUL byte")));
        }
        if raw.len() > MAX_PATH_BYTES {
            return Err(invalid(format!(
                "`{shown}` is longer than {MAX_PATH_BYTES} bytes"
            )));
        }
        let mut path = PathBuf::new();
        for part in Path::new(std::ffi::OsStr::from_bytes(raw)).components() {
            match part {
                Component::Normal(name) if name.len() > MAX_NAME_BYTES => {
                    return Err(invalid(format!(
                        "`{shown}` has a name longer than {MAX_NAME_BYTES} bytes"
                    )));
                }
                Component::Normal(name) => path.push(name),
                Component::CurDir => {}
                Component::RootDir | Component::Prefix(_) => {
                    return Err(invalid(format!("`{shown}` is an absolute path")));
                }
                Component::ParentDir => {
                    return Err(invalid(format!("`{shown}` has a `..` in it")));
                }
            }
        }
        let is_own = self.at_top && path.starts_with(OWN_FOLDER);
        Ok((!is_own).then_some(path))
    }

    /// Adds an entry and the folders that it is in; whether it is new.
    pub fn add(&mut self, path: &Path, planned: Planned) -> Result<bool, ConnectError> {
        let text = shown(path.as_os_str().as_bytes());
        for parent in path.ancestors().skip(1) {
            match self.entries.get(parent) {
                None if parent.as_os_str().is_empty() => {}
                None => {
                    self.count(parent)?;
                    self.entries
                        .insert(parent.to_owned(), Planned::Folder(None));
                }
                Some(Planned::Folder(_)) => break,
                Some(_) => {
                    return Err(invalid(format!(
                        "`{text}` is below what the archive has as a file or a link"
                    )));
                }
            }
        }
        let is_new = match (self.entries.get(path), &planned) {
            (None, _) => {
                self.count(path)?;
                true
            }
            (Some(Planned::Folder(_)), Planned::Folder(_))
            | (Some(Planned::File), Planned::File)
            | (Some(Planned::Link(_)), Planned::Link(_)) => false,
            _ => {
                return Err(invalid(format!(
                    "`{text}` is in the archive as two kinds of things"
                )));
            }
        };
        self.entries.insert(path.to_owned(), planned);
        Ok(is_new)
    }

    fn count(&mut self, path: &Path) -> Result<(), ConnectError> {
        self.paths_bytes += path.as_os_str().len();
        if self.paths_bytes > MAX_PATHS_BYTES {
            return Err(invalid("the archive's paths are too long together"));
        }
        Ok(())
    }
}

/// The target of a link, when it stays where the archive is unpacked.
///
/// A `..` after a name could go up from wherever another link leads, so it is
/// taken only at the start, where the folder is known.
pub fn link_target(path: &Path, raw: &[u8]) -> Result<PathBuf, ConnectError> {
    let refused = || {
        let path = shown(path.as_os_str().as_bytes());
        invalid(format!("`{path}` is a link that leaves the archive"))
    };
    if raw.is_empty() || raw.contains(&0) || raw.len() > MAX_PATH_BYTES {
        return Err(refused());
    }
    let target = Path::new(std::ffi::OsStr::from_bytes(raw));
    let mut depth = path.components().count().saturating_sub(1);
    let mut names = false;
    for part in target.components() {
        match part {
            Component::Normal(_) => names = true,
            Component::CurDir => {}
            Component::ParentDir if !names && depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(refused());
            }
        }
    }
    Ok(target.to_owned())
}

/// As messages show it: at most a hundred characters.
pub fn shown(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let mut short: String = text.chars().take(100).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_the_archives_place() {
        let plan = Plan::new(true);
        for (raw, path) in [("a/./b//c/", "a/b/c"), ("./", ""), ("ä\n", "ä\n")] {
            assert_eq!(
                plan.path(raw.as_bytes()).unwrap().unwrap(),
                Path::new(path),
                "{raw}"
            );
        }
        for raw in ["/etc/passwd", "..", "a/../b", "a/..", "a\0b", "../x"] {
            assert!(plan.path(raw.as_bytes()).is_err(), "{raw:?}");
        }
        assert!(plan.path(&[b'n'; 256]).is_err());
        assert!(plan.path("a/".repeat(2000).as_bytes()).is_err());
        assert_eq!(plan.path(b"./.sandbox/output/x").unwrap(), None);
        assert!(Plan::new(false).path(b".sandbox/x").unwrap().is_some());
    }

    #[test]
    fn a_link_leads_to_where_the_archive_is() {
        for (path, target) in [
            ("l", "a"),
            ("d/l", "../a/b"),
            ("d/e/l", "../../x"),
            ("l", "./a"),
        ] {
            let found = link_target(Path::new(path), target.as_bytes());
            assert_eq!(found.unwrap(), Path::new(target));
        }
        for (path, target) in [
            ("l", "/etc"),
            ("l", ".."),
            ("d/l", "../.."),
            ("d/l", "a/../../x"),
            ("l", "d/.."),
            ("l", ""),
            ("l", "a\0"),
        ] {
            let found = link_target(Path::new(path), target.as_bytes());
            assert!(found.is_err(), "{path} -> {target:?}");
        }
    }

    #[test]
    fn nothing_is_below_a_file_or_a_link_and_nothing_is_two_things() {
        let mut plan = Plan::default();
        let link = Planned::Link("x".into());
        assert!(plan.add(Path::new("d/f"), Planned::File).unwrap());
        assert!(!plan.add(Path::new("d/f"), Planned::File).unwrap());
        assert!(plan.add(Path::new("l"), link.clone()).unwrap());
        assert!(
            !plan
                .add(Path::new("d"), Planned::Folder(Some(0o700)))
                .unwrap()
        );
        for (path, planned) in [
            ("d/f/g", Planned::File),
            ("l/g", Planned::File),
            ("d", Planned::File),
            ("d", link.clone()),
            ("d/f", link),
            ("l", Planned::File),
            ("d/f", Planned::Folder(None)),
        ] {
            assert!(plan.add(Path::new(path), planned).is_err(), "{path}");
        }
        let paths: Vec<_> = plan.entries().keys().cloned().collect();
        assert_eq!(paths, ["d", "d/f", "l"].map(PathBuf::from));
    }
}
