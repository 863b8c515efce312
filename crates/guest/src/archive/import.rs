//! An archive into the workspace: all of it, or nothing.

use std::{
    cell::Cell,
    fs::{self, OpenOptions, Permissions},
    io::{self, Read},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use connectrpc::{ConnectError, InboundStream};
use futures::StreamExt as _;
use rustix::fs::OFlags;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{
    __buffa::oneof::import_request::Part, Compression, ImportRequest, ImportResponse, ImportStart,
};
use tar::{Archive, Entry, EntryType};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{
    compression::unpacked,
    invalid,
    merge::merge,
    pipe::{self, Input},
    plan::{Plan, Planned, link_target, shown},
};
use crate::{
    error::{error, from_io},
    own_folder, path,
    state::Guest,
    workspace::remove::remove_all,
};

/// Of what stands between two files' contents: headers, long names, attributes.
const HEADER_BYTES: u64 = 64 * 1024;
const BUFFER_BYTES: usize = 64 * 1024;

pub(crate) async fn import(
    guest: Arc<Guest>,
    mut messages: InboundStream<ImportRequest>,
) -> Result<ImportResponse, ConnectError> {
    let first = next(&mut messages).await?;
    let Some(Part::Start(start)) = first else {
        return Err(error(
            ErrorCode::InvalidRequest,
            "the first message is no start",
        ));
    };
    let (sender, input) = pipe::input();
    let (tell, told) = oneshot::channel();
    guest.archives.clone().start(move || {
        let _ = tell.send(unpack(&guest.workspace, &start, input));
    })?;
    loop {
        let chunk = match next(&mut messages).await? {
            Some(Part::Data(data)) => Some(data),
            Some(Part::End(_)) => None,
            Some(Part::Start(_)) => {
                return Err(error(ErrorCode::InvalidRequest, "a second start"));
            }
            // Without the end the thread learns that nobody waits any more.
            None => return Err(broken(&io::ErrorKind::ConnectionAborted.into())),
        };
        let is_last = chunk.is_none();
        // When it reads no more, `told` has what it has to say.
        if sender.send(chunk).await.is_err() || is_last {
            break;
        }
    }
    told.await
        .unwrap_or_else(|_| Err(error(ErrorCode::Internal, "the archive's thread is gone")))
}

async fn next(messages: &mut InboundStream<ImportRequest>) -> Result<Option<Part>, ConnectError> {
    match messages.next().await {
        None => Ok(None),
        Some(Err(error)) => Err(error),
        Some(Ok(message)) => match message.to_owned_message().part {
            Some(part) => Ok(Some(part)),
            None => Err(error(ErrorCode::InvalidRequest, "a message without a part")),
        },
    }
}

/// Where an archive is unpacked; gone with all that is left in it.
struct Staging(PathBuf);

impl Staging {
    fn make(workspace: &Path) -> io::Result<Self> {
        let name = format!("import-{}", Uuid::new_v4().simple());
        own_folder::make(workspace, &[&name])?;
        let staging = Self(workspace.join(own_folder::NAME).join(name));
        fs::create_dir(staging.unpacked())?;
        fs::create_dir(staging.replaced())?;
        Ok(staging)
    }

    fn unpacked(&self) -> PathBuf {
        self.0.join("new")
    }

    fn replaced(&self) -> PathBuf {
        self.0.join("replaced")
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = remove_all(&self.0, || true);
    }
}

fn unpack(
    workspace: &Path,
    start: &ImportStart,
    mut input: Input,
) -> Result<ImportResponse, ConnectError> {
    let into = path::in_workspace(workspace, &start.path)?;
    if into.starts_with(workspace.join(own_folder::NAME)) {
        return Err(error(
            ErrorCode::InvalidPath,
            "the path is in the service's own folder",
        ));
    }
    let staging = Staging::make(workspace).map_err(|cause| from_io(&cause, "the workspace"))?;
    let compression = start
        .compression
        .as_known()
        .unwrap_or(Compression::COMPRESSION_NONE);
    let (plan, done) = {
        let reader = unpacked(compression, &mut input).map_err(|cause| broken(&cause))?;
        let allowed = Allowance::default();
        let mut unpacking = Unpacking {
            plan: Plan::new(into == workspace),
            staged: staging.unpacked(),
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
    merge(
        workspace,
        &plan,
        &staging.unpacked(),
        &staging.replaced(),
        &into,
    )?;
    Ok(done)
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

struct Unpacking {
    plan: Plan,
    staged: PathBuf,
    left: u64,
    max_bytes: u64,
    entries_left: u32,
    done: ImportResponse,
    allowed: Allowance,
}

impl Unpacking {
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
        let place = self.staged.join(&path);
        let mode = entry.header().mode().unwrap_or(0o644) & 0o777;
        let fail = |cause: io::Error| from_io(&cause, &shown(&raw));
        match kind {
            EntryType::Directory if path.as_os_str().is_empty() => {}
            _ if path.as_os_str().is_empty() => {
                return Err(invalid("an entry that is no folder has no name"));
            }
            EntryType::Directory => {
                self.plan.add(&path, Planned::Folder(Some(mode)))?;
                fs::create_dir_all(&place).map_err(fail)?;
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
                fs::hard_link(self.staged.join(target), &place).map_err(fail)?;
                self.done.written += 1;
            }
            _ => {
                self.make_way(&path)?;
                let written = write(entry, &place, mode).map_err(|cause| match cause.kind() {
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
        let place = self.staged.join(path);
        let is_new = self.plan.add(path, Planned::File)?;
        let made = match (is_new, place.parent()) {
            (false, _) => {
                self.done.written -= 1;
                fs::remove_file(&place)
            }
            (true, Some(parent)) => fs::create_dir_all(parent),
            (true, None) => Ok(()),
        };
        made.map_err(|cause| from_io(&cause, &path.to_string_lossy()))
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

fn write<R: Read>(entry: &mut Entry<'_, R>, place: &Path, mode: u32) -> io::Result<u64> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(place)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut written = 0;
    loop {
        let read = entry.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        io::Write::write_all(&mut file, &buffer[..read])?;
        written += read as u64;
    }
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(written)
}

fn too_large(detail: &str) -> ConnectError {
    error(ErrorCode::TooLarge, detail)
}

/// What a reader of archives says; its words are about the archive alone.
fn broken(cause: &io::Error) -> ConnectError {
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
