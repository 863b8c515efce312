//! Copying what a run made, within limits.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, ioctl_ficlone, unlinkat},
    io::Errno,
};
use sandbox_wire::sandbox::v1::{Artifact, ArtifactLimits};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::kind::Kind;
use crate::own_folder;

pub(super) const FOLDER: &str = "artifacts";
const CHUNK: usize = 128 * 1024;
/// Of the beginning, to tell what it is.
const HEAD: usize = 512;
/// Files of figures that are remembered.
const MAX_PLOTS: usize = 1000;

/// What may still be kept of a run, and what was not.
pub(crate) struct Keeper {
    files_left: u32,
    bytes_left: u64,
    max_file_bytes: u64,
    omitted: u32,
    plots: HashSet<PathBuf>,
}

/// What is known of a file that is to be kept.
pub(crate) struct About {
    pub name: String,
    /// Where the program put it; none where that is nowhere to be seen.
    pub path: Option<String>,
    pub is_plot: bool,
}

struct Copied {
    size: u64,
    hash: Sha256,
    head: Vec<u8>,
}

impl Keeper {
    /// Without limits nothing is wanted.
    pub fn new(limits: Option<&ArtifactLimits>) -> Self {
        Self {
            files_left: limits.map_or(0, |limits| limits.max_files),
            bytes_left: limits.map_or(0, |limits| limits.max_total_bytes),
            max_file_bytes: limits.map_or(0, |limits| limits.max_file_bytes),
            omitted: 0,
            plots: HashSet::new(),
        }
    }

    /// A figure was saved to a file of the workspace.
    pub fn note_plot(&mut self, path: &Path) {
        if self.plots.len() < MAX_PLOTS {
            self.plots.insert(path.to_owned());
        }
    }

    pub(super) fn is_plot(&self, path: &Path) -> bool {
        self.plots.contains(path)
    }

    pub fn omitted(&self) -> u32 {
        self.omitted
    }

    pub fn omit(&mut self, files: u32) {
        self.omitted = self.omitted.saturating_add(files);
    }

    /// Copies a file and describes the copy; none when it is beyond a limit or
    /// cannot be copied.
    pub fn keep(
        &mut self,
        workspace: &Path,
        source: &File,
        about: About,
        go_on: &impl Fn() -> bool,
    ) -> Option<Artifact> {
        let kept = self.try_keep(workspace, source, about, go_on).ok();
        if kept.is_none() {
            self.omit(1);
        }
        kept
    }

    fn try_keep(
        &mut self,
        workspace: &Path,
        source: &File,
        about: About,
        go_on: &impl Fn() -> bool,
    ) -> io::Result<Artifact> {
        let max = self.max_file_bytes.min(self.bytes_left);
        if self.files_left == 0 || source.metadata()?.len() > max {
            return Err(too_large());
        }
        let id = Uuid::now_v7().to_string();
        let dir = own_folder::make(workspace, &[FOLDER])?;
        let copied = copy(source, &own_folder::create(&dir, &id)?, max, go_on)
            .inspect_err(|_| remove(&dir, &id))?;
        self.files_left -= 1;
        self.bytes_left -= copied.size;
        let kind = Kind::of(&about.name, &copied.head);
        let stored_path = format!("{}/{FOLDER}/{id}", own_folder::NAME);
        Ok(Artifact {
            id,
            path: about.path.unwrap_or_else(|| stored_path.clone()),
            stored_path,
            kind: if about.is_plot && kind.can_be_plot() {
                "plot"
            } else {
                kind.name
            }
            .to_owned(),
            name: about.name,
            mime_type: kind.mime_type.to_owned(),
            size_bytes: copied.size,
            sha256: copied.hash.finalize().to_vec(),
            ..Default::default()
        })
    }
}

fn too_large() -> io::Error {
    Errno::FBIG.into()
}

fn remove(dir: &OwnedFd, name: &str) {
    let _ = unlinkat(dir, name, AtFlags::empty());
}

/// What is hashed is what is in the copy, whatever becomes of the source
/// meanwhile; a source that grows is not followed beyond the limit.
fn copy(
    mut source: &File,
    mut copy: &File,
    max: u64,
    go_on: &impl Fn() -> bool,
) -> io::Result<Copied> {
    // Shares the blocks where the file system can, and costs no space then.
    let is_clone = ioctl_ficlone(copy, source).is_ok();
    let mut buffer = vec![0; CHUNK];
    let mut copied = Copied {
        size: 0,
        hash: Sha256::new(),
        head: Vec::new(),
    };
    loop {
        if !go_on() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let read = match is_clone {
            true => copy.read(&mut buffer)?,
            false => source.read(&mut buffer)?,
        };
        let data = &buffer[..read];
        if data.is_empty() {
            break;
        }
        copied.size += read as u64;
        if copied.size > max {
            return Err(too_large());
        }
        if copied.head.is_empty() {
            copied.head = data[..read.min(HEAD)].to_vec();
        }
        copied.hash.update(data);
        let is_hole = data.iter().all(|byte| *byte == 0);
        if !is_clone && is_hole {
            copy.seek(SeekFrom::Current(i64::try_from(read).unwrap_or(0)))?;
        } else if !is_clone {
            copy.write_all(data)?;
        }
    }
    if !is_clone {
        copy.set_len(copied.size)?;
    }
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs, os::unix::fs::MetadataExt as _};

    use super::*;

    fn keeper(max_files: u32, max_file_bytes: u64, max_total_bytes: u64) -> Keeper {
        Keeper::new(Some(&ArtifactLimits {
            max_files,
            max_file_bytes,
            max_total_bytes,
            ..Default::default()
        }))
    }

    fn about(name: &str) -> About {
        About {
            name: name.into(),
            path: Some(name.into()),
            is_plot: false,
        }
    }

    fn file(dir: &Path, content: &[u8]) -> File {
        let path = dir.join("source");
        fs::write(&path, content).unwrap();
        File::open(path).unwrap()
    }

    #[test]
    fn a_copy_is_described_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let source = file(dir.path(), b"a,b\n1,2\n");
        let mut keeper = keeper(1, 100, 100);
        let kept = keeper
            .keep(dir.path(), &source, about("t.csv"), &|| true)
            .unwrap();
        let stored = fs::read(dir.path().join(&kept.stored_path)).unwrap();
        assert_eq!(stored, b"a,b\n1,2\n");
        assert_eq!(kept.sha256, Sha256::digest(&stored).to_vec());
        assert_eq!(
            (kept.kind.as_str(), kept.mime_type.as_str(), kept.size_bytes),
            ("table", "text/csv", 8)
        );
        assert_eq!(kept.id.as_bytes()[14], b'7');
        let again = keeper.keep(dir.path(), &source, about("t.csv"), &|| true);
        assert_eq!((again, keeper.omitted()), (None, 1));
    }

    #[test]
    fn what_is_beyond_a_limit_leaves_no_copy() {
        let dir = tempfile::tempdir().unwrap();
        let source = file(dir.path(), &[b'x'; 60]);
        let mut keeper = keeper(9, 60, 100);
        assert!(
            keeper
                .keep(dir.path(), &source, about("a"), &|| true)
                .is_some()
        );
        let source = File::open(dir.path().join("source")).unwrap();
        assert_eq!(keeper.keep(dir.path(), &source, about("b"), &|| true), None);
        let copies = fs::read_dir(dir.path().join(".sandbox/artifacts")).unwrap();
        assert_eq!((copies.count(), keeper.omitted()), (1, 1));
        // It is found when it is copied that the file has grown.
        let growing = Cell::new(0);
        let source = file(dir.path(), &[b'x'; 10]);
        let grown = copy(
            &source,
            &tempfile::tempfile().unwrap(),
            CHUNK as u64,
            &|| {
                if growing.replace(growing.get() + 1) == 1 {
                    fs::write(dir.path().join("source"), vec![b'x'; 3 * CHUNK]).unwrap();
                }
                true
            },
        );
        assert!(grown.is_err());
    }

    #[test]
    fn a_sparse_file_stays_one_and_a_huge_one_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let source = file(dir.path(), b"");
        let writable = File::options()
            .write(true)
            .open(dir.path().join("source"))
            .unwrap();
        writable.set_len(1 << 40).unwrap();
        let mut keeper = keeper(9, 64 << 20, 1 << 30);
        assert_eq!(keeper.keep(dir.path(), &source, about("a"), &|| true), None);
        writable.set_len(32 << 20).unwrap();
        let kept = keeper
            .keep(dir.path(), &source, about("a"), &|| true)
            .unwrap();
        assert_eq!(kept.size_bytes, 32 << 20);
        let stored = fs::metadata(dir.path().join(kept.stored_path)).unwrap();
        assert_eq!((stored.len(), stored.blocks()), (32 << 20, 0));
    }

    #[test]
    fn a_copy_that_takes_too_long_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let source = file(dir.path(), &vec![b'x'; 4 * CHUNK]);
        let mut keeper = keeper(9, 1 << 30, 1 << 30);
        let asked = Cell::new(0);
        let go_on = || asked.replace(asked.get() + 1) < 2;
        assert_eq!(keeper.keep(dir.path(), &source, about("a"), &go_on), None);
        let copies = fs::read_dir(dir.path().join(".sandbox/artifacts")).unwrap();
        assert_eq!((copies.count(), keeper.omitted()), (0, 1));
    }
}
