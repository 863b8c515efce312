//! A stream that is larger than what is kept of it, whole in a file.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::OwnedFd,
    path::PathBuf,
    sync::Arc,
};

use rustix::fs::{AtFlags, unlinkat};
use sandbox_wire::sandbox::v1::OutputFile;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use crate::own_folder;

/// Where the streams of one run spill to, and when.
#[derive(Clone)]
pub(crate) struct Spilling {
    pub workspace: PathBuf,
    /// The name of the run's folder.
    pub run: String,
    /// A stream that is not larger stays in memory.
    pub kept: u64,
    /// A stream that is larger ends the run.
    pub limit: u64,
    /// Told when one is.
    pub over: Arc<Notify>,
}

/// One stream of a run.
pub(super) struct Spill {
    to: Spilling,
    name: &'static str,
    /// What may still be written.
    left: usize,
    is_over: bool,
    at: At,
}

enum At {
    /// From its first byte, for it may grow too large yet.
    Memory(Vec<u8>),
    File(Box<Writing>),
    /// No file can be had: the run goes on without.
    Nowhere,
}

struct Writing {
    dir: OwnedFd,
    name: &'static str,
    file: File,
    hash: Sha256,
    size: u64,
}

impl Spill {
    pub fn new(to: Spilling, name: &'static str) -> Self {
        Self {
            name,
            left: usize::try_from(to.limit).unwrap_or(usize::MAX),
            is_over: false,
            at: At::Memory(Vec::new()),
            to,
        }
    }

    pub async fn take(&mut self, data: &[u8]) {
        let fits = &data[..data.len().min(self.left)];
        self.left -= fits.len();
        if fits.len() < data.len() && !self.is_over {
            self.is_over = true;
            self.to.over.notify_one();
        }
        self.at = match std::mem::replace(&mut self.at, At::Nowhere) {
            At::Memory(mut start) => {
                start.extend_from_slice(fits);
                // What is beyond the limit is beyond what is kept, too.
                if start.len() as u64 > self.to.kept || self.is_over {
                    let (to, name) = (self.to.clone(), self.name);
                    on_disk(move || Writing::start(&to, name)?.add(&start)).await
                } else {
                    At::Memory(start)
                }
            }
            At::File(writing) => {
                let data = fits.to_vec();
                on_disk(move || writing.add(&data)).await
            }
            At::Nowhere => At::Nowhere,
        };
    }

    /// Whether the stream is larger than it may be.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The file, if there is one.
    pub fn finish(self) -> Option<OutputFile> {
        let At::File(writing) = self.at else {
            return None;
        };
        Some(OutputFile {
            path: format!("{}/output/{}/{}", own_folder::NAME, self.to.run, self.name),
            size_bytes: writing.size,
            sha256: writing.hash.finalize().to_vec(),
            ..Default::default()
        })
    }
}

/// Off the thread that serves everybody, for a disk may be slow.
async fn on_disk(work: impl FnOnce() -> io::Result<Box<Writing>> + Send + 'static) -> At {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(writing)) => At::File(writing),
        _ => At::Nowhere,
    }
}

impl Writing {
    fn start(to: &Spilling, name: &'static str) -> io::Result<Box<Self>> {
        let dir = own_folder::make(&to.workspace, &["output", &to.run])?;
        Ok(Box::new(Self {
            file: own_folder::create(&dir, name)?,
            dir,
            name,
            hash: Sha256::new(),
            size: 0,
        }))
    }

    fn add(mut self: Box<Self>, data: &[u8]) -> io::Result<Box<Self>> {
        if let Err(cause) = self.file.write_all(data) {
            // Half a stream would pass for the whole one.
            let _ = unlinkat(&self.dir, self.name, AtFlags::empty());
            return Err(cause);
        }
        self.hash.update(data);
        self.size += data.len() as u64;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn spilling(workspace: &Path) -> Spilling {
        Spilling {
            workspace: workspace.to_owned(),
            run: "run".into(),
            kept: 4,
            limit: 10,
            over: Arc::default(),
        }
    }

    #[tokio::test]
    async fn a_file_begins_when_the_stream_is_too_large_to_be_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(spilling(dir.path()), "stdout");
        let file = dir.path().join(".sandbox/output/run/stdout");
        spill.take(b"abcd").await;
        assert!(!file.exists());
        spill.take(b"e").await;
        assert_eq!(fs::read(&file).unwrap(), b"abcde");
        spill.take(b"fghijkl").await;
        assert!(spill.is_over());
        spill.take(b"mn").await;
        let kept = spill.finish().unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"abcdefghij");
        assert_eq!(
            (kept.path.as_str(), kept.size_bytes),
            (".sandbox/output/run/stdout", 10)
        );
        assert_eq!(kept.sha256, Sha256::digest(b"abcdefghij").to_vec());
    }

    #[test]
    fn a_disk_that_is_full_leaves_no_half_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut writing = Writing::start(&spilling(dir.path()), "stdout").unwrap();
        let file = dir.path().join(".sandbox/output/run/stdout");
        assert!(file.exists());
        writing.file = File::options().write(true).open("/dev/full").unwrap();
        assert!(writing.add(b"x").is_err());
        assert!(!file.exists());
    }
}
