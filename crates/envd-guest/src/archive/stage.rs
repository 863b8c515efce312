//! Where an archive is unpacked: below the guest's own folder, by uploads.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use connectrpc::ConnectError;
use guest_parts::archive::unpack::Stage;
use tokio::sync::mpsc;

use crate::{
    envd::text,
    state::State,
    upload::{Upload, is_plain},
};

const BUFFER_BYTES: usize = 64 * 1024;
/// Steps that wait for the sandbox.
const AHEAD: usize = 4;
/// Files of one upload; envd answers with a list of them.
const FILES_AT_ONCE: usize = 500;
/// What envd gives to what is uploaded.
const USUAL_MODE: u32 = 0o644;

pub(super) enum Step {
    File(PathBuf, u32),
    Data(Bytes),
    Copy(PathBuf, PathBuf),
}

/// The end that a thread unpacks into; it waits for the sandbox.
pub(super) struct Sending(mpsc::Sender<Step>);

pub(super) fn stage() -> (Sending, mpsc::Receiver<Step>) {
    let (sender, steps) = mpsc::channel(AHEAD);
    (Sending(sender), steps)
}

impl Sending {
    fn send(&self, step: Step) -> io::Result<()> {
        // Who receives has said why it does no more.
        self.0
            .blocking_send(step)
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Stage for Sending {
    fn folder(&mut self, _: &Path) -> io::Result<()> {
        // The plan has it; those with files in them come with the files.
        Ok(())
    }

    fn file(&mut self, path: &Path, mode: u32, _: u64, content: &mut dyn Read) -> io::Result<u64> {
        self.send(Step::File(path.to_owned(), mode))?;
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut written = 0;
        loop {
            let read = content.read(&mut buffer)?;
            if read == 0 {
                return Ok(written);
            }
            self.send(Step::Data(Bytes::copy_from_slice(&buffer[..read])))?;
            written += read as u64;
        }
    }

    fn same_file(&mut self, path: &Path, earlier: &Path) -> io::Result<()> {
        self.send(Step::Copy(path.to_owned(), earlier.to_owned()))
    }
}

/// The end that uploads.
pub(super) struct Receiving {
    state: Arc<State>,
    staged: PathBuf,
    upload: Option<Upload>,
    in_upload: Vec<PathBuf>,
    modes: BTreeMap<PathBuf, u32>,
}

impl Receiving {
    pub fn new(state: Arc<State>, staged: PathBuf) -> Self {
        Self {
            state,
            staged,
            upload: None,
            in_upload: Vec::new(),
            modes: BTreeMap::new(),
        }
    }

    /// Does all steps that come; the modes of files are set at the end.
    pub async fn all(mut self, mut steps: mpsc::Receiver<Step>) -> Result<(), ConnectError> {
        while let Some(step) = steps.recv().await {
            match step {
                Step::File(path, mode) => self.file(path, mode).await?,
                Step::Data(data) => {
                    if let Some(upload) = &mut self.upload {
                        upload.write(&data, "the archive").await?;
                    }
                }
                Step::Copy(path, earlier) => self.copy(path, &earlier).await?,
            }
        }
        self.flush().await?;
        let mut by_mode: BTreeMap<u32, Vec<PathBuf>> = BTreeMap::new();
        for (path, mode) in &self.modes {
            if *mode != USUAL_MODE {
                by_mode
                    .entry(*mode)
                    .or_default()
                    .push(self.staged.join(path));
            }
        }
        for (mode, paths) in by_mode {
            let paths: Vec<_> = paths.iter().map(PathBuf::as_path).collect();
            let set = self.state.envd.set_mode(&paths, mode, "the archive");
            set.await?;
        }
        Ok(())
    }

    async fn file(&mut self, path: PathBuf, mode: u32) -> Result<(), ConnectError> {
        let place = self.staged.join(&path);
        let name = text(&place)?;
        // envd takes each path once in an upload.
        if self.in_upload.len() >= FILES_AT_ONCE
            || self.in_upload.contains(&path)
            || !is_plain(&name)
        {
            self.flush().await?;
        }
        let shown = path.to_string_lossy().into_owned();
        if !is_plain(&name) {
            let mut upload = self.state.envd.upload(Some(&place))?;
            upload.file("file", &shown).await?;
            self.upload = Some(upload);
            // The next needs an upload of its own.
            self.in_upload = vec![path.clone(); FILES_AT_ONCE];
        } else {
            if self.upload.is_none() {
                self.upload = Some(self.state.envd.upload(None)?);
            }
            if let Some(upload) = &mut self.upload {
                upload.file(&name, &shown).await?;
            }
            self.in_upload.push(path.clone());
        }
        self.modes.insert(path, mode);
        Ok(())
    }

    async fn copy(&mut self, path: PathBuf, earlier: &Path) -> Result<(), ConnectError> {
        self.flush().await?;
        let (from, to) = (self.staged.join(earlier), self.staged.join(&path));
        let copied = self.state.envd.copy(&from, &to, "the archive");
        copied.await?;
        let mode = self.modes.get(earlier).copied().unwrap_or(USUAL_MODE);
        self.modes.insert(path, mode);
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), ConnectError> {
        self.in_upload.clear();
        match self.upload.take() {
            Some(upload) => upload.finish("the archive").await,
            None => Ok(()),
        }
    }
}
