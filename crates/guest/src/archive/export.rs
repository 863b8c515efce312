//! A file or a folder of the workspace as an archive.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read as _, Write},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use connectrpc::ConnectError;
use futures::{Stream, stream};
use guest_parts::archive::{
    compression::Packed,
    pipe::{self, Output},
};
use rustix::fs::OFlags;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{Compression, ExportRequest, ExportResponse};
use tar::{Builder, EntryType, Header};

use crate::{
    blocking::blocking,
    error::{error, from_io, not_regular},
    own_folder, path,
    state::Guest,
    workspace::open::check_dir,
};

/// Starts to pack; the archive is made as fast as it is taken.
pub(crate) async fn export(
    guest: Arc<Guest>,
    request: ExportRequest,
) -> Result<impl Stream<Item = Result<ExportResponse, ConnectError>> + Send, ConnectError> {
    let compression = request
        .compression
        .as_known()
        .unwrap_or(Compression::COMPRESSION_NONE);
    let top = path::in_workspace(&guest.workspace, &request.path)?;
    let shown = path::shown(&guest.workspace, &top);
    let (top, shown) = blocking(move |_| {
        look(&top, &shown)?;
        Ok((top, shown))
    })
    .await?;
    let (output, chunks) = pipe::output();
    let errors = output.errors();
    guest.archives.clone().start(move || {
        if let Err(cause) = pack(&guest.workspace, &top, compression, output)
            && cause.kind() != io::ErrorKind::BrokenPipe
        {
            let failed = from_io(&cause, &shown);
            let _ = errors.blocking_send(Err(failed));
        }
    })?;
    Ok(stream::unfold(chunks, |mut chunks| async move {
        let chunk = chunks.recv().await?;
        let message = chunk.map(|data| ExportResponse {
            data,
            ..Default::default()
        });
        Some((message, chunks))
    }))
}

/// What is asked for is a file or a folder, and not the kernel's.
fn look(top: &Path, shown: &str) -> Result<(), ConnectError> {
    let found = fs::metadata(top).map_err(|cause| from_io(&cause, shown))?;
    if found.is_dir() {
        check_dir(top, shown)
    } else if found.is_file() {
        Ok(())
    } else if found.is_symlink() {
        Err(error(
            ErrorCode::NotFound,
            format!("`{shown}` does not exist"),
        ))
    } else {
        Err(not_regular(shown))
    }
}

fn pack(workspace: &Path, top: &Path, compression: Compression, output: Output) -> io::Result<()> {
    let mut tar = Builder::new(Packed::new(compression, output)?);
    if fs::metadata(top)?.is_dir() {
        pack_folder(&mut tar, top, top == workspace)?;
    } else {
        let name = top.file_name().map_or(Path::new("file"), Path::new);
        let (file, found) = open(&fs::canonicalize(top)?)?.ok_or(io::ErrorKind::NotFound)?;
        append_file(&mut tar, name, file, &found)?;
    }
    let mut output = tar.into_inner()?.finish()?;
    output.flush()
}

/// In the order of the names; what goes away meanwhile is passed over.
fn pack_folder<W: Write>(tar: &mut Builder<W>, top: &Path, is_workspace: bool) -> io::Result<()> {
    let mut open: Vec<PathBuf> = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        let mut names: Vec<_> = match fs::read_dir(top.join(&folder)) {
            Ok(entries) => entries
                .filter_map(|entry| Some(entry.ok()?.file_name()))
                .collect(),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(cause),
        };
        names.sort_unstable();
        let mut below = Vec::new();
        for name in names {
            if is_workspace && folder.as_os_str().is_empty() && name == own_folder::NAME {
                continue;
            }
            let path = folder.join(name);
            if append(tar, top, &path)? {
                below.push(path);
            }
        }
        open.extend(below.into_iter().rev());
    }
    Ok(())
}

/// Whether it is a folder. Sockets, FIFOs and devices are passed over.
fn append<W: Write>(tar: &mut Builder<W>, top: &Path, path: &Path) -> io::Result<bool> {
    let place = top.join(path);
    let Ok(found) = fs::symlink_metadata(&place) else {
        return Ok(false);
    };
    if found.is_dir() {
        let mut header = header(&found, EntryType::Directory, 0);
        tar.append_data(&mut header, path, io::empty())?;
        return Ok(true);
    }
    if found.is_symlink() {
        let Ok(target) = fs::read_link(&place) else {
            return Ok(false);
        };
        let mut header = header(&found, EntryType::Symlink, 0);
        tar.append_link(&mut header, path, target)?;
        return Ok(false);
    }
    if found.is_file()
        && let Some((file, found)) = open(&place)?
    {
        append_file(tar, path, file, &found)?;
    }
    Ok(false)
}

/// `None` when it is no regular file any more.
fn open(place: &Path) -> io::Result<Option<(File, Metadata)>> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(place);
    let file = match opened {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(cause),
    };
    let found = file.metadata()?;
    Ok(found.is_file().then_some((file, found)))
}

/// As long as it was when it was opened, whatever becomes of it: a header
/// cannot be taken back.
fn append_file<W: Write>(
    tar: &mut Builder<W>,
    path: &Path,
    file: File,
    found: &Metadata,
) -> io::Result<()> {
    let size = found.len();
    let mut header = header(found, EntryType::Regular, size);
    tar.append_data(&mut header, path, file.chain(io::repeat(0)).take(size))
}

fn header(found: &Metadata, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(found.mode() & 0o777);
    header.set_mtime(u64::try_from(found.mtime()).unwrap_or(0));
    header
}
