//! A stream that is larger than what is kept of it, whole in a file of the sandbox.

use std::{path::PathBuf, sync::Arc};

use guest_parts::OWN_FOLDER;
use sandbox_wire::sandbox::v1::OutputFile;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use crate::{state::State, upload::Upload};

/// Where the streams of one run spill to, and when.
#[derive(Clone)]
pub(super) struct Spilling {
    pub state: Arc<State>,
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
    upload: Upload,
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
                    match self.start().await {
                        Some(writing) => add(writing, &start).await,
                        None => At::Nowhere,
                    }
                } else {
                    At::Memory(start)
                }
            }
            At::File(writing) => add(writing, fits).await,
            At::Nowhere => At::Nowhere,
        };
    }

    /// Whether the stream is larger than it may be.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn below(&self) -> String {
        format!("{OWN_FOLDER}/output/{}/{}", self.to.run, self.name)
    }

    fn path(&self) -> PathBuf {
        self.to.state.workspace.join(self.below())
    }

    async fn start(&self) -> Option<Box<Writing>> {
        self.to.state.own_folder("output").await.ok()?;
        let mut upload = self.to.state.envd.upload(Some(&self.path())).ok()?;
        upload.file(self.name, self.name).await.ok()?;
        Some(Box::new(Writing {
            upload,
            hash: Sha256::new(),
            size: 0,
        }))
    }

    /// The file, if there is one.
    pub async fn finish(mut self) -> Option<OutputFile> {
        let At::File(writing) = std::mem::replace(&mut self.at, At::Nowhere) else {
            return None;
        };
        if writing.upload.finish(self.name).await.is_err() {
            // Half a stream would pass for the whole one.
            let _ = self.to.state.envd.remove_all(&self.path(), self.name).await;
            return None;
        }
        Some(OutputFile {
            path: self.below(),
            size_bytes: writing.size,
            sha256: writing.hash.finalize().to_vec(),
            ..Default::default()
        })
    }
}

async fn add(mut writing: Box<Writing>, data: &[u8]) -> At {
    if writing.upload.write(data, "output").await.is_err() {
        return At::Nowhere;
    }
    writing.hash.update(data);
    writing.size += data.len() as u64;
    At::File(writing)
}
