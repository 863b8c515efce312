//! Reading an archive, entry by entry, each checked before anything is made of it.

use std::{
    cell::Cell,
    io::{self, Read},
    path::Path,
    rc::Rc,
};

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{ImportResponse, ImportStart};
use tar::{Archive, Entry, EntryType};

use super::{
    compression::unpacked,
    invalid,
    pipe::Input,
    plan::{Plan, Planned, link_target, shown},
};
use crate::error::{error, from_io};

/// Of what stands between two files' contents: headers, long names, attributes.
const HEADER_BYTES: u64 = 64 * 1024;

/// Where an archive is unpacked, beside what it is for.
///
/// Paths are relative, clean, and below nothing but folders. An error of kind
/// `UnexpectedEof`, `InvalidData` or `ConnectionAborted` is one of `content`.
pub trait Stage {
    fn folder(&mut self, path: &Path) -> io::Result<()>;

    /// A file, and the folders that it is in; one that is there is replaced.
    fn file(
        &mut self,
        path: &Path,
        mode: u32,
        size: u64,
        content: &mut dyn Read,
    ) -> io::Result<u64>;

    /// Another name of a file that is there, or a copy of it.
    fn same_file(&mut self, path: &Path, earlier: &Path) -> io::Result<()>;
}

/// Unpacks all that comes; what must be put in place is told, links among it.
pub fn unpack(
    start: &ImportStart,
    at_top: bool,
    input: &mut Input,
    stage: &mut dyn Stage,
) -> Result<(Plan, ImportResponse), ConnectError> {
    let compression = start.compression.as_known().unwrap_or_default();
    let (plan, done) = {
        let reader = unpacked(compression, &mut *input).map_err(|cause| broken(&cause))?;
        let allowed = Allowance::default();
        let mut unpacking = Unpacking {
            plan: Plan::new(at_top),
            stage,
            left: start.max_bytes,
            max_bytes: start.max_bytes,
            entries_left: start.max_entries,
            done: ImportResponse::default(),
            allowed: allowed.clone(),
        };
        unpacking.all(Limited {
            inner: reader,
            allowed,
        })?;
        (unpacking.plan, unpacking.done)
    };
    // Also what comes after the archive's end: a client that was cut off is one
    // whose archive may have been longer.
    input.drain().map_err(|cause| broken(&cause))?;
    Ok((plan, done))
}

/// How much may be read now; so neither a header nor what is packed has no end.
#[derive(Clone, Default)]
struct Allowance(Rc<Cell<u64>>);

struct Limited<R> {
    inner: R,
    allowed: Allowance,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let allowed = self.allowed.0.get();
        if allowed == 0 && !buffer.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a header is too long",
            ));
        }
        let size = usize::try_from(allowed)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = self.inner.read(&mut buffer[..size])?;
        self.allowed.0.set(allowed - read as u64);
        Ok(read)
    }
}

struct Unpacking<'a> {
    plan: Plan,
    stage: &'a mut dyn Stage,
    left: u64,
    max_bytes: u64,
    entries_left: u32,
    done: ImportResponse,
    allowed: Allowance,
}

impl Unpacking<'_> {
    fn all<R: Read>(&mut self, reader: Limited<R>) -> Result<(), ConnectError> {
        let mut archive = Archive::new(reader);
        let mut entries = archive.entries().map_err(|cause| broken(&cause))?;
        loop {
            self.allowed.0.set(HEADER_BYTES);
            let Some(entry) = entries.next() else {
                return Ok(());
            };
            let mut entry = entry.map_err(|cause| broken(&cause))?;
            self.entries_left = self
                .entries_left
                .checked_sub(1)
                .ok_or_else(|| too_large("the archive has too many entries"))?;
            // With what fills its last block.
            self.allowed
                .0
                .set(entry.size().saturating_add(HEADER_BYTES));
            self.one(&mut entry)?;
        }
    }

    fn one<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<(), ConnectError> {
        let kind = entry.header().entry_type();
        let raw = entry.path_bytes().into_owned();
        let size = entry.size();
        self.left = self.left.checked_sub(size).ok_or_else(|| {
            too_large(&format!(
                "the archive has more than {} bytes",
                self.max_bytes
            ))
        })?;
        if matches!(kind, EntryType::XGlobalHeader) {
            return pass_over(entry);
        }
        check_kind(entry, &raw)?;
        let Some(path) = self.plan.path(&raw)? else {
            return pass_over(entry);
        };
        let mode = entry.header().mode().unwrap_or(0o644) & 0o777;
        let fail = |cause: io::Error| from_io(&cause, &shown(&raw));
        match kind {
            EntryType::Directory if path.as_os_str().is_empty() => {}
            _ if path.as_os_str().is_empty() => {
                return Err(invalid("an entry that is no folder has no name"));
            }
            EntryType::Directory => {
                self.plan.add(&path, Planned::Folder(Some(mode)))?;
                self.stage.folder(&path).map_err(fail)?;
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default();
                let target = link_target(&path, &target)?;
                self.plan.add(&path, Planned::Link(target))?;
            }
            EntryType::Link => {
                let target = entry.link_name_bytes().unwrap_or_default();
                let target = self.plan.path(&target)?;
                let target = target.filter(|target| self.plan.is_file(target));
                let target = target.ok_or_else(|| {
                    let shown = shown(&raw);
                    invalid(format!("`{shown}` is a link to no file that is before it"))
                })?;
                if target == path {
                    return Ok(());
                }
                self.make_way(&path)?;
                self.stage.same_file(&path, &target).map_err(fail)?;
                self.done.written += 1;
            }
            _ => {
                self.make_way(&path)?;
                let written = self.stage.file(&path, mode, size, entry);
                let written = written.map_err(|cause| match cause.kind() {
                    io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::InvalidData
                    | io::ErrorKind::ConnectionAborted => broken(&cause),
                    _ => fail(cause),
                })?;
                if written != size {
                    return Err(invalid("the archive ends before its time"));
                }
                self.done.written += 1;
                self.done.bytes += written;
            }
        }
        Ok(())
    }

    /// For a file; one of the same name that came before gives way.
    fn make_way(&mut self, path: &Path) -> Result<(), ConnectError> {
        if !self.plan.add(path, Planned::File)? {
            self.done.written -= 1;
        }
        Ok(())
    }
}

/// Reads what is not unpacked, while so much may be read.
fn pass_over<R: Read>(entry: &mut Entry<'_, R>) -> Result<(), ConnectError> {
    io::copy(entry, &mut io::sink())
        .map(drop)
        .map_err(|cause| broken(&cause))
}

/// Files, folders and links; nothing that a program could wait at or break out by.
fn check_kind<R: Read>(entry: &mut Entry<'_, R>, raw: &[u8]) -> Result<(), ConnectError> {
    let refused = |what: &str| Err(invalid(format!("`{}` is {what}", shown(raw))));
    match entry.header().entry_type() {
        EntryType::Regular | EntryType::Continuous => {}
        EntryType::Directory | EntryType::Symlink | EntryType::Link => {
            if entry.size() > 0 {
                return refused("a folder or a link with content");
            }
        }
        EntryType::Char | EntryType::Block => return refused("a device"),
        EntryType::Fifo => return refused("a FIFO"),
        EntryType::GNUSparse => return refused("a sparse file"),
        _ => return refused("of a kind that is not taken"),
    }
    let attributes = entry.pax_extensions().map_err(|cause| broken(&cause))?;
    for attribute in attributes.into_iter().flatten() {
        let attribute = attribute.map_err(|cause| broken(&cause))?;
        if attribute.key_bytes().starts_with(b"GNU.sparse.") {
            return refused("a sparse file");
        }
    }
    Ok(())
}

fn too_large(detail: &str) -> ConnectError {
    error(ErrorCode::TooLarge, detail)
}

/// What a reader of archives says; its words are about the archive alone.
pub fn broken(cause: &io::Error) -> ConnectError {
    match cause.kind() {
        io::ErrorKind::ConnectionAborted => {
            error(ErrorCode::InvalidRequest, "the archive was broken off")
        }
        io::ErrorKind::OutOfMemory => from_io(cause, "the archive"),
        _ => invalid(format!(
            "the archive cannot be read: {}",
            shown(cause.to_string().as_bytes())
        )),
    }
}
