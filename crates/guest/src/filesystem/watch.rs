//! Changes below a folder.

use std::path::{Path, PathBuf};

use connectrpc::ConnectError;
use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{ModifyKind, RenameMode},
};
use sandbox_core::ErrorCode;
use sandbox_wire::filesystem::{EventType, FilesystemEvent};
use tokio::sync::mpsc;

use super::entry::entry_info;
use crate::error::{error, from_io};

/// Events that wait to be taken; later ones are dropped.
const MAX_WAITING: usize = 4096;

/// Ends with its value.
pub(super) struct Watch {
    events: mpsc::Receiver<FilesystemEvent>,
    _watcher: RecommendedWatcher,
}

impl Watch {
    pub fn start(
        dir: &Path,
        recursive: bool,
        with_entry: bool,
        shown: &str,
    ) -> Result<Self, ConnectError> {
        let found = std::fs::metadata(dir).map_err(|cause| from_io(&cause, shown))?;
        if !found.is_dir() {
            return Err(error(
                ErrorCode::NotADirectory,
                format!("`{shown}` is not a directory"),
            ));
        }
        let (sender, events) = mpsc::channel(MAX_WAITING);
        let root = dir.to_owned();
        let exhausted = |_| {
            error(
                ErrorCode::SandboxExhausted,
                "no more folders can be watched",
            )
        };
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let Ok(event) = event else { return };
            for event in filesystem_events(&root, event, with_entry) {
                let _ = sender.try_send(event);
            }
        })
        .map_err(exhausted)?;
        let mode = match recursive {
            true => RecursiveMode::Recursive,
            false => RecursiveMode::NonRecursive,
        };
        watcher.watch(dir, mode).map_err(exhausted)?;
        Ok(Self {
            events,
            _watcher: watcher,
        })
    }

    pub async fn next(&mut self) -> Option<FilesystemEvent> {
        self.events.recv().await
    }

    /// What has happened since the last time.
    pub fn take(&mut self) -> Vec<FilesystemEvent> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }
}

fn filesystem_events(root: &Path, event: Event, with_entry: bool) -> Vec<FilesystemEvent> {
    let kind = match event.kind {
        EventKind::Create(_) => EventType::EVENT_TYPE_CREATE,
        EventKind::Remove(_) => EventType::EVENT_TYPE_REMOVE,
        // Told once more with both names.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => return Vec::new(),
        EventKind::Modify(ModifyKind::Name(RenameMode::To)) => EventType::EVENT_TYPE_CREATE,
        EventKind::Modify(ModifyKind::Name(_)) => EventType::EVENT_TYPE_RENAME,
        EventKind::Modify(ModifyKind::Metadata(_)) => EventType::EVENT_TYPE_CHMOD,
        EventKind::Modify(_) => EventType::EVENT_TYPE_WRITE,
        _ => return Vec::new(),
    };
    let named = |path: &PathBuf| FilesystemEvent {
        name: path
            .strip_prefix(root)
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned(),
        r#type: kind.into(),
        entry: with_entry.then(|| entry_info(path).ok()).flatten().into(),
        ..Default::default()
    };
    event.paths.iter().map(named).collect()
}
