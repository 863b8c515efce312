//! Files of what could not be written before the service stopped.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use sandbox_store::AuditRecord;
use tracing::{error, warn};
use uuid::Uuid;

use crate::line::Line;

const ENDING: &str = "jsonl";

/// A line that is no record, as after a disk that was full.
#[derive(Debug, thiserror::Error)]
#[error("line {number} is no record")]
struct Damaged {
    number: usize,
    source: serde_json::Error,
}

/// Calls of it block for as long as the disk takes.
pub struct Spool {
    folder: Option<PathBuf>,
    /// The file of this start: one is never added to by two.
    file: Mutex<Option<File>>,
}

impl Spool {
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            file: Mutex::new(None),
        }
    }

    /// Keeps records for the next start, on the disk when this returns. Where
    /// that fails they go to the log, without their code.
    pub fn keep(&self, records: Vec<AuditRecord>) {
        if records.is_empty() {
            return;
        }
        let Some(folder) = &self.folder else {
            return log(records);
        };
        match self.write(folder, &records) {
            Ok(()) => warn!(
                audit.records = records.len(),
                "kept {} audit records in `{}` for the next start",
                records.len(),
                folder.display()
            ),
            Err(error) => {
                error!(%error, "failed to keep audit records in `{}`", folder.display());
                log(records);
            }
        }
    }

    fn write(&self, folder: &Path, records: &[AuditRecord]) -> io::Result<()> {
        let mut lines = Vec::new();
        for record in records {
            serde_json::to_writer(&mut lines, &Line::from(record.clone()))?;
            lines.push(b'\n');
        }
        let mut slot = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *slot {
            Some(file) => file,
            None => slot.insert(create(folder)?),
        };
        // One that was cut off must not swallow the next write's first line.
        let written = file.write_all(&lines).and_then(|()| file.sync_all());
        if written.is_err() {
            *slot = None;
        }
        written
    }

    /// The files of earlier starts, oldest first.
    pub fn files(&self) -> io::Result<Vec<PathBuf>> {
        let Some(folder) = &self.folder else {
            return Ok(Vec::new());
        };
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

fn create(folder: &Path) -> io::Result<File> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let name = format!("audit-{}.{ENDING}", Uuid::now_v7());
    let file = OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join(name))?;
    // The name must be on the disk as well.
    File::open(folder)?.sync_all()?;
    Ok(file)
}

/// The records of a file. Lines that are none are put beside it, so that one
/// does not keep all others out for ever.
pub fn read(path: &Path) -> io::Result<Vec<AuditRecord>> {
    let mut records = Vec::new();
    let mut damaged = Vec::new();
    let mut first = None;
    for (at, line) in BufReader::new(File::open(path)?).split(b'\n').enumerate() {
        let line = line?;
        match serde_json::from_slice::<Line>(&line) {
            Ok(record) => records.push(record.into()),
            Err(source) => {
                first.get_or_insert(Damaged {
                    number: at + 1,
                    source,
                });
                damaged.extend(line);
                damaged.push(b'\n');
            }
        }
    }
    if let Some(problem) = first {
        let beside = path.with_extension("damaged");
        error!(
            problem = &problem as &dyn std::error::Error,
            "`{}` is damaged: what is no record is in `{}`",
            path.display(),
            beside.display()
        );
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(beside)?;
        file.write_all(&damaged)?;
        file.sync_all()?;
    }
    Ok(records)
}

/// The last resort.
fn log(records: Vec<AuditRecord>) {
    for record in records {
        let line = Line::from(AuditRecord {
            code: None,
            ..record
        });
        let text = serde_json::to_string(&line).unwrap_or_default();
        error!(audit.record = %text, "an audit record could not be kept");
    }
}
