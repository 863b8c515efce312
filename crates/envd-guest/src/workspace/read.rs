//! Reading files.

use std::sync::Arc;

use bytes::Bytes;
use connectrpc::ConnectError;
use futures::{Stream, StreamExt as _, stream};
use guest_parts::{
    archive::pipe,
    error::{error, from_io},
    lines::{Wanted, read_page},
};
use sandbox_core::ErrorCode;
use sandbox_wire::{
    filesystem::EntryInfo,
    sandbox::v1::{
        __buffa::oneof::read_bytes_response::Part, FileInfo, ReadBytesRequest, ReadBytesResponse,
        ReadLinesRequest, ReadLinesResponse,
    },
};

use crate::{envd::size, files::Download, state::State};

/// Most text of one answer, whatever was asked for.
const MAX_TEXT_BYTES: u64 = 64 * 1024 * 1024;

pub(super) async fn read_lines(
    state: &State,
    request: &ReadLinesRequest,
) -> Result<ReadLinesResponse, ConnectError> {
    let (file, shown) = state.path(&request.path)?;
    let (file, found) = state.envd.file(&file, &shown).await?;
    let size = size(&found);
    let mut download = state.envd.download(&file, 0..size, size, &shown).await?;
    let offset = request.offset.max(1);
    let wanted = Wanted {
        offset,
        limit: request.limit,
        max_bytes: usize::try_from(request.max_bytes.min(MAX_TEXT_BYTES)).unwrap_or(usize::MAX),
    };
    let (sender, input) = pipe::input();
    let reading = tokio::task::spawn_blocking(move || read_page(input, &wanted, || true));
    while let Some(data) = download.next().await? {
        // When it reads no more, it has what it has to say.
        if sender.send(Some(data.into())).await.is_err() {
            break;
        }
    }
    let _ = sender.send(None).await;
    let page = reading
        .await
        .map_err(|_| error(ErrorCode::Internal, "the file work was broken off"))?
        .map_err(|cause| from_io(&cause, &shown))?
        .ok_or_else(|| {
            error(
                ErrorCode::NotText,
                format!("`{shown}` is not UTF-8 text; /read_binary reads it"),
            )
        })?;
    Ok(ReadLinesResponse {
        path: shown,
        offset,
        lines: page.lines,
        total_lines: page.total,
        truncated: page.cut || (offset - 1).saturating_add(page.lines) < page.total,
        content: page.content,
        size_bytes: size,
        ..Default::default()
    })
}

pub(super) async fn read_bytes(
    state: &Arc<State>,
    request: &ReadBytesRequest,
) -> Result<impl Stream<Item = Result<ReadBytesResponse, ConnectError>> + Send + use<>, ConnectError>
{
    let (file, shown) = state.path(&request.path)?;
    let (file, found) = state.envd.file(&file, &shown).await?;
    let size = size(&found);
    let (offset, length) = if request.from_end {
        let length = request.length.unwrap_or(size).min(size);
        (size - length, length)
    } else {
        let offset = request.offset.min(size);
        let length = request.length.unwrap_or(u64::MAX);
        (offset, length.min(size - offset))
    };
    let part = offset..offset + length;
    let download = state.envd.download(&file, part, size, &shown).await?;
    let info = FileInfo {
        path: shown,
        size_bytes: size,
        etag: etag(&found),
        modified: found.modified_time,
        ..Default::default()
    };
    let first = stream::iter([Ok(response(info.into()))]);
    // Read when asked for: a reader that stalls stops the reading.
    Ok(first.chain(stream::try_unfold(download, next_part)))
}

async fn next_part(
    mut left: Download,
) -> Result<Option<(ReadBytesResponse, Download)>, ConnectError> {
    let next: Option<Bytes> = left.next().await?;
    Ok(next.map(|data| (response(Part::Data(data.into())), left)))
}

fn response(part: Part) -> ReadBytesResponse {
    ReadBytesResponse {
        part: Some(part),
        ..Default::default()
    }
}

/// envd tells no inode, and one time only.
fn etag(found: &EntryInfo) -> String {
    let modified = found.modified_time.as_option();
    let (seconds, nanos) = modified.map_or((0, 0), |time| (time.seconds, time.nanos));
    format!("{:x}-{seconds:x}.{nanos:x}-{:o}", found.size, found.mode)
}
