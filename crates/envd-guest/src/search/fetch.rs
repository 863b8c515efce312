//! The files of a search, a few at a time and in order.

use std::{io::Cursor, path::PathBuf, time::Instant};

use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;

use crate::envd::Envd;

/// Files on their way at a time: each waits for the network, not for a disk.
const AT_ONCE: usize = 8;
/// Of one file; larger ones are searched in part.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;
/// Of one search.
const MAX_FILES: usize = 20_000;
const MAX_TOTAL_BYTES: u64 = 512 * 1024 * 1024;

pub(super) struct Fetched {
    pub shown: String,
    pub content: Cursor<Vec<u8>>,
    /// There is more of it.
    pub is_partial: bool,
}

/// Fetches what may be fetched, until nobody takes it; whether something is missing.
pub(super) async fn all(
    envd: &Envd,
    files: Vec<(PathBuf, String, u64)>,
    to: mpsc::Sender<Fetched>,
    until: Instant,
) -> bool {
    let mut left = MAX_TOTAL_BYTES;
    let wanted = files.len();
    let allowed: Vec<_> = files
        .into_iter()
        .take(MAX_FILES)
        .map_while(|(path, shown, size)| {
            left = left.checked_sub(size.min(MAX_FILE_BYTES))?;
            Some((path, shown, size))
        })
        .collect();
    let is_partial = allowed.len() < wanted;
    let mut fetching = stream::iter(allowed)
        .map(|(path, shown, size)| async move {
            let part = 0..size.min(MAX_FILE_BYTES);
            // What cannot be read, or is no file any more, holds no match.
            let content = match size {
                0 => Vec::new(),
                _ => match envd.download(&path, part, size, &shown).await {
                    Ok(download) => download.collect().await.unwrap_or_default(),
                    Err(_) => Vec::new(),
                },
            };
            Fetched {
                shown,
                content: Cursor::new(content),
                is_partial: size > MAX_FILE_BYTES,
            }
        })
        .buffered(AT_ONCE);
    let all = async {
        while let Some(file) = fetching.next().await {
            if to.send(file).await.is_err() {
                break;
            }
        }
    };
    let late = tokio::time::timeout_at(until.into(), all).await.is_err();
    is_partial || late
}
