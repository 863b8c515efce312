//! The service `filesystem.Filesystem`, as the public contract words it.

mod entry;
mod watch;

use std::{
    collections::HashMap,
    fs, io,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use connectrpc::{
    ConnectError, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream,
};
use entry::entry_info;
use futures::stream;
use sandbox_core::ErrorCode;
use sandbox_wire::filesystem::{
    CreateWatcherRequest, CreateWatcherResponse, Filesystem, GetWatcherEventsRequest,
    GetWatcherEventsResponse, ListDirRequest, ListDirResponse, MakeDirRequest, MakeDirResponse,
    MoveRequest, MoveResponse, RemoveRequest, RemoveResponse, RemoveWatcherRequest,
    RemoveWatcherResponse, StatRequest, StatResponse, WatchDirRequest, WatchDirResponse,
    watch_dir_response,
};
use watch::Watch;

use crate::{
    error::{blocking, error, from_io},
    path,
    state::Guest,
};

/// Entries of one listing.
const MAX_ENTRIES: usize = 100_000;
const MAX_DEPTH: u32 = 64;
/// Watchers that are polled; each holds a thread of its own.
const MAX_WATCHERS: usize = 32;
const KEEPALIVE_DEFAULT: Duration = Duration::from_secs(90);

pub(crate) struct FilesystemService {
    guest: Arc<Guest>,
    watchers: Mutex<HashMap<String, Watch>>,
    next_watcher: AtomicU64,
}

impl FilesystemService {
    pub fn new(guest: Arc<Guest>) -> Self {
        Self {
            guest,
            watchers: Mutex::default(),
            next_watcher: AtomicU64::new(1),
        }
    }

    async fn do_with<Q: Send + 'static, A: Send + 'static>(
        &self,
        request: Q,
        work: fn(&Path, &Q) -> Result<A, ConnectError>,
    ) -> ServiceResult<A> {
        let guest = Arc::clone(&self.guest);
        Response::ok(blocking(move || work(&guest.workspace, &request)).await?)
    }

    async fn watch(
        &self,
        path: &str,
        recursive: bool,
        with_entry: bool,
    ) -> Result<Watch, ConnectError> {
        let dir = path::in_sandbox(&self.guest.workspace, path)?;
        let shown = path.to_owned();
        blocking(move || Watch::start(&dir, recursive, with_entry, &shown)).await
    }
}

fn stat(workspace: &Path, request: &StatRequest) -> Result<StatResponse, ConnectError> {
    let file = path::in_sandbox(workspace, &request.path)?;
    let entry = entry_info(&file).map_err(|cause| from_io(&cause, &request.path))?;
    Ok(StatResponse {
        entry: entry.into(),
        ..Default::default()
    })
}

fn make_dir(workspace: &Path, request: &MakeDirRequest) -> Result<MakeDirResponse, ConnectError> {
    let dir = path::in_sandbox(workspace, &request.path)?;
    let fail = |cause: io::Error| from_io(&cause, &request.path);
    if fs::metadata(&dir).is_ok() {
        return Err(fail(io::ErrorKind::AlreadyExists.into()));
    }
    fs::create_dir_all(&dir).map_err(fail)?;
    Ok(MakeDirResponse {
        entry: entry_info(&dir).map_err(fail)?.into(),
        ..Default::default()
    })
}

fn move_entry(workspace: &Path, request: &MoveRequest) -> Result<MoveResponse, ConnectError> {
    let source = path::in_sandbox(workspace, &request.source)?;
    let destination = path::in_sandbox(workspace, &request.destination)?;
    if let Some(parent) = destination.parent() {
        fs::create_dir_all(parent).map_err(|cause| from_io(&cause, &request.destination))?;
    }
    fs::rename(&source, &destination).map_err(|cause| from_io(&cause, &request.source))?;
    let entry = entry_info(&destination).map_err(|cause| from_io(&cause, &request.destination))?;
    Ok(MoveResponse {
        entry: entry.into(),
        ..Default::default()
    })
}

fn list_dir(workspace: &Path, request: &ListDirRequest) -> Result<ListDirResponse, ConnectError> {
    let root = path::in_sandbox(workspace, &request.path)?;
    let fail = |cause: io::Error| from_io(&cause, &request.path);
    if !fs::metadata(&root).map_err(fail)?.is_dir() {
        return Err(error(
            ErrorCode::NotADirectory,
            format!("`{}` is not a directory", request.path),
        ));
    }
    let mut entries = Vec::new();
    let mut left = vec![(root, request.depth.clamp(1, MAX_DEPTH))];
    while let Some((dir, depth)) = left.pop() {
        // A folder below may have gone, or may be closed.
        let Ok(found) = fs::read_dir(&dir) else {
            continue;
        };
        let mut paths: Vec<_> = found.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if entries.len() >= MAX_ENTRIES {
                return Err(error(
                    ErrorCode::TooLarge,
                    "the directory has too many entries",
                ));
            }
            let Ok(entry) = entry_info(&path) else {
                continue;
            };
            let is_dir = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
            entries.push(entry);
            if is_dir && depth > 1 {
                left.push((path, depth - 1));
            }
        }
    }
    Ok(ListDirResponse {
        entries,
        ..Default::default()
    })
}

fn remove(workspace: &Path, request: &RemoveRequest) -> Result<RemoveResponse, ConnectError> {
    let file = path::in_sandbox(workspace, &request.path)?;
    let fail = |cause: io::Error| from_io(&cause, &request.path);
    if fs::symlink_metadata(&file).map_err(fail)?.is_dir() {
        fs::remove_dir_all(&file).map_err(fail)?;
    } else {
        fs::remove_file(&file).map_err(fail)?;
    }
    Ok(RemoveResponse::default())
}

fn no_watcher() -> ConnectError {
    ConnectError::not_found("there is no such watcher")
}

fn response(event: impl Into<Option<watch_dir_response::Event>>) -> WatchDirResponse {
    WatchDirResponse {
        event: event.into(),
        ..Default::default()
    }
}

impl Filesystem for FilesystemService {
    async fn stat(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, StatRequest>,
    ) -> ServiceResult<StatResponse> {
        self.do_with(request.to_owned_message(), stat).await
    }

    async fn make_dir(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, MakeDirRequest>,
    ) -> ServiceResult<MakeDirResponse> {
        self.do_with(request.to_owned_message(), make_dir).await
    }

    async fn r#move(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, MoveRequest>,
    ) -> ServiceResult<MoveResponse> {
        self.do_with(request.to_owned_message(), move_entry).await
    }

    async fn list_dir(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ListDirRequest>,
    ) -> ServiceResult<ListDirResponse> {
        self.do_with(request.to_owned_message(), list_dir).await
    }

    async fn remove(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RemoveRequest>,
    ) -> ServiceResult<RemoveResponse> {
        self.do_with(request.to_owned_message(), remove).await
    }

    async fn watch_dir(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, WatchDirRequest>,
    ) -> ServiceResult<ServiceStream<WatchDirResponse>> {
        let request = request.to_owned_message();
        let watch = self
            .watch(&request.path, request.recursive, request.include_entry)
            .await?;
        let every = context
            .header("keepalive-ping-interval")
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .filter(|seconds| *seconds > 0)
            .map_or(KEEPALIVE_DEFAULT, Duration::from_secs);
        let begin = (watch, true);
        Ok(Response::stream(stream::unfold(
            begin,
            move |(mut watch, first)| async move {
                if first {
                    let start = watch_dir_response::StartEvent::default();
                    return Some((
                        Ok(response(watch_dir_response::Event::from(start))),
                        (watch, false),
                    ));
                }
                let event = match tokio::time::timeout(every, watch.next()).await {
                    Ok(Some(event)) => watch_dir_response::Event::from(event),
                    Ok(None) => return None,
                    Err(_) => watch_dir_response::KeepAlive::default().into(),
                };
                Some((Ok(response(event)), (watch, false)))
            },
        )))
    }

    async fn create_watcher(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, CreateWatcherRequest>,
    ) -> ServiceResult<CreateWatcherResponse> {
        let request = request.to_owned_message();
        let watch = self
            .watch(&request.path, request.recursive, request.include_entry)
            .await?;
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        if watchers.len() >= MAX_WATCHERS {
            return Err(error(
                ErrorCode::SandboxExhausted,
                "too many watchers are open",
            ));
        }
        let watcher_id = format!("w{}", self.next_watcher.fetch_add(1, Ordering::Relaxed));
        watchers.insert(watcher_id.clone(), watch);
        Response::ok(CreateWatcherResponse {
            watcher_id,
            ..Default::default()
        })
    }

    async fn get_watcher_events(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, GetWatcherEventsRequest>,
    ) -> ServiceResult<GetWatcherEventsResponse> {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = watchers
            .get_mut(request.watcher_id)
            .ok_or_else(no_watcher)?;
        Response::ok(GetWatcherEventsResponse {
            events: watch.take(),
            ..Default::default()
        })
    }

    async fn remove_watcher(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RemoveWatcherRequest>,
    ) -> ServiceResult<RemoveWatcherResponse> {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.remove(request.watcher_id).ok_or_else(no_watcher)?;
        Response::ok(RemoveWatcherResponse::default())
    }
}
