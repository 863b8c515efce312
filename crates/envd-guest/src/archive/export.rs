//! A file or a folder of the workspace as an archive.

use std::{
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use connectrpc::ConnectError;
use futures::{Stream, stream};
use guest_parts::{
    OWN_FOLDER,
    archive::{
        compression::Packed,
        pipe::{self, Input, Output},
    },
    error::{error, from_io},
};
use sandbox_core::ErrorCode;
use sandbox_wire::{
    filesystem::EntryInfo,
    sandbox::v1::{Compression, ExportRequest, ExportResponse},
};
use tar::{Builder, EntryType, Header};
use tokio::{sync::mpsc, time::Instant};

use super::start;
use crate::{
    envd::{check_file, is_file, is_folder, is_link, not_found, size},
    state::State,
};

/// How long it may take to look what is there.
const LOOK_LIMIT: Duration = Duration::from_secs(60);
/// Entries that wait to be packed.
const AHEAD: usize = 2;

/// One entry of the archive, and the bytes of a file.
struct Item {
    name: PathBuf,
    entry: EntryInfo,
    content: Option<Input>,
}

/// Starts to pack; the archive is made as fast as it is taken.
pub(crate) async fn export(
    state: &Arc<State>,
    request: ExportRequest,
) -> Result<impl Stream<Item = Result<ExportResponse, ConnectError>> + Send + use<>, ConnectError> {
    let compression = request.compression.as_known().unwrap_or_default();
    let (top, shown) = state.path(&request.path)?;
    let found = state.envd.find(&top, &shown).await?;
    let entry = found.entry.ok_or_else(|| not_found(&shown))?;
    let items = match is_folder(&entry) {
        true => folder(state, &top, &found.path, &shown).await?,
        false => {
            check_file(&found.path, &entry, &shown)?;
            let name = top.file_name().map_or("file".into(), PathBuf::from);
            vec![(name, entry, found.path)]
        }
    };
    let (output, chunks) = pipe::output();
    let errors = output.errors();
    let (sender, packing) = mpsc::channel(AHEAD);
    let in_words = shown.clone();
    start(state, move || {
        let failed = match pack(packing, compression, output) {
            Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => cause,
            _ => return,
        };
        let _ = errors.blocking_send(Err(from_io(&failed, &in_words)));
    })?;
    // Ends when nobody packs any more, which is when nobody takes the archive.
    tokio::spawn(send(Arc::clone(state), items, sender));
    Ok(stream::unfold(chunks, |mut chunks| async move {
        let chunk = chunks.recv().await?;
        let message = chunk.map(|data| ExportResponse {
            data,
            ..Default::default()
        });
        Some((message, chunks))
    }))
}

type Listed = (PathBuf, EntryInfo, PathBuf);

/// In the order of the names, and without what is no file, folder or link.
async fn folder(
    state: &State,
    top: &Path,
    found: &Path,
    shown: &str,
) -> Result<Vec<Listed>, ConnectError> {
    let until = Instant::now() + LOOK_LIMIT;
    let listing = state.envd.tree(found, shown, until).await?;
    if listing.is_partial {
        return Err(error(
            ErrorCode::TooLarge,
            format!("`{shown}` has too many entries"),
        ));
    }
    let at_top = top == state.workspace;
    Ok(listing
        .entries
        .into_iter()
        .filter(|(path, _)| !(at_top && path.starts_with(OWN_FOLDER)))
        .map(|(path, mut entry)| {
            let place = found.join(&path);
            entry.symlink_target = entry.symlink_target.map(|it| relative(found, &place, it));
            (path, entry, place)
        })
        .collect())
}

/// envd tells where a link ends up; in the archive it leads there by itself.
fn relative(top: &Path, place: &Path, target: String) -> String {
    let Some(parent) = place.parent() else {
        return target;
    };
    let Ok(below) = Path::new(&target).strip_prefix(top) else {
        return target;
    };
    let parent = parent.strip_prefix(top).unwrap_or(Path::new(""));
    let shared = parent.components().zip(below.components());
    let shared = shared.take_while(|(ours, theirs)| ours == theirs).count();
    let ups = parent.components().count() - shared;
    let mut relative = PathBuf::new();
    relative.extend(std::iter::repeat_n("..", ups));
    relative.extend(below.components().skip(shared));
    relative.to_string_lossy().into_owned()
}

async fn send(state: Arc<State>, items: Vec<Listed>, to: mpsc::Sender<Item>) {
    for (name, entry, place) in items {
        let mut item = Item {
            name,
            content: None,
            entry,
        };
        let size = size(&item.entry);
        if !is_file(&item.entry) || size == 0 {
            if to.send(item).await.is_err() {
                return;
            }
            continue;
        }
        // What has gone meanwhile is passed over.
        let Ok(mut download) = state.envd.download(&place, 0..size, size, "a file").await else {
            continue;
        };
        let (sender, content) = pipe::input();
        item.content = Some(content);
        if to.send(item).await.is_err() {
            return;
        }
        loop {
            match download.next().await {
                Ok(Some(data)) => {
                    if sender.send(Some(data.into())).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                // Half of a file would pass for the whole: the archive is broken off.
                Err(_) => return,
            }
        }
        let _ = sender.send(None).await;
    }
    // Without it the archive would look whole.
    let _ = to
        .send(Item {
            name: PathBuf::new(),
            entry: EntryInfo::default(),
            content: None,
        })
        .await;
}

fn pack(
    mut items: mpsc::Receiver<Item>,
    compression: Compression,
    output: Output,
) -> io::Result<()> {
    let mut tar = Builder::new(Packed::new(compression, output)?);
    loop {
        let Some(item) = items.blocking_recv() else {
            return Err(io::ErrorKind::ConnectionAborted.into());
        };
        if item.name.as_os_str().is_empty() {
            break;
        }
        append(&mut tar, item)?;
    }
    let mut output = tar.into_inner()?.finish()?;
    output.flush()
}

fn append(tar: &mut Builder<impl io::Write>, item: Item) -> io::Result<()> {
    let entry = &item.entry;
    if is_folder(entry) {
        let mut header = header(entry, EntryType::Directory, 0);
        return tar.append_data(&mut header, &item.name, io::empty());
    }
    if is_link(entry) {
        let target = entry.symlink_target.as_deref().unwrap_or_default();
        if target.is_empty() || target.contains('\0') {
            return Ok(());
        }
        let mut header = header(entry, EntryType::Symlink, 0);
        return tar.append_link(&mut header, &item.name, target);
    }
    if !is_file(entry) {
        return Ok(());
    }
    // As long as it was when it was listed, whatever becomes of it: a header cannot be
    // taken back.
    let size = size(entry);
    let mut header = header(entry, EntryType::Regular, size);
    match item.content {
        Some(content) => {
            let content = content.chain(io::repeat(0)).take(size);
            tar.append_data(&mut header, &item.name, content)
        }
        None => tar.append_data(&mut header, &item.name, io::empty()),
    }
}

fn header(entry: &EntryInfo, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(entry.mode & 0o777);
    let modified = entry.modified_time.as_option().map_or(0, |it| it.seconds);
    // 33 bits, as the field has room for.
    header.set_mtime(u64::try_from(modified).unwrap_or(0).min(0o77_777_777_777));
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_within_what_is_packed_leads_there_by_itself() {
        let top = Path::new("/w/top");
        let at = |place: &str, target: &str| relative(top, Path::new(place), target.into());
        assert_eq!(at("/w/top/l", "/w/top/a/b"), "a/b");
        assert_eq!(at("/w/top/d/e/l", "/w/top/a"), "../../a");
        assert_eq!(at("/w/top/d/e/l", "/w/top/d/a"), "../a");
        assert_eq!(at("/w/top/l", "/etc/passwd"), "/etc/passwd");
        assert_eq!(at("/w/top/l", "../x"), "../x");
    }
}
