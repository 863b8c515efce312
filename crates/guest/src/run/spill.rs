//! Files of what a run prints, in the workspace.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::OwnedFd,
    path::PathBuf,
};

use guest_parts::spill::{self, SpillFile};
use rustix::fs::{AtFlags, unlinkat};

use crate::own_folder;

pub(crate) type Spilling = spill::Spilling<PathBuf>;
pub(super) type Spill = spill::Spill<Writing>;

pub(super) struct Writing {
    dir: OwnedFd,
    name: &'static str,
    file: File,
}

impl SpillFile for Writing {
    /// The workspace.
    type Place = PathBuf;

    async fn create(workspace: &PathBuf, run: &str, name: &'static str) -> Option<Self> {
        let (workspace, run) = (workspace.clone(), run.to_owned());
        on_disk(move || {
            let dir = own_folder::make(&workspace, &["output", &run])?;
            let file = own_folder::create(&dir, name)?;
            Ok(Self { dir, name, file })
        })
        .await
    }

    async fn write(self, data: &[u8]) -> Option<Self> {
        let data = data.to_vec();
        on_disk(move || self.add(&data)).await
    }

    async fn finish(self) -> bool {
        true
    }
}

impl Writing {
    fn add(mut self, data: &[u8]) -> io::Result<Self> {
        if let Err(cause) = self.file.write_all(data) {
            let _ = unlinkat(&self.dir, self.name, AtFlags::empty());
            return Err(cause);
        }
        Ok(self)
    }
}

/// Off the thread that serves everybody, for a disk may be slow.
async fn on_disk(work: impl FnOnce() -> io::Result<Writing> + Send + 'static) -> Option<Writing> {
    tokio::task::spawn_blocking(work).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_disk_that_is_full_leaves_no_half_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().to_owned();
        let writing = Writing::create(&workspace, "run", "stdout").await.unwrap();
        let file = workspace.join(".sandbox/output/run/stdout");
        let mut writing = writing.write(b"abc").await.unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"abc");
        writing.file = File::options().write(true).open("/dev/full").unwrap();
        assert!(writing.write(b"x").await.is_none());
        assert!(!file.exists());
    }
}
