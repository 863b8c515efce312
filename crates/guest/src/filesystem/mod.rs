//! The service `filesystem.Filesystem`, as the public contract words it.

mod entry;
pub(crate) mod metadata;
mod tree;
mod watch;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use connectrpc::{
    ConnectError, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream,
};
use futures::stream;
use sandbox_core::ErrorCode;
use sandbox_wire::filesystem::{
    CreateWatcherRequest, CreateWatcherResponse, Filesystem, FilesystemEvent,
    GetWatcherEventsRequest, GetWatcherEventsResponse, ListDirRequest, ListDirResponse,
    MakeDirRequest, MakeDirResponse, MoveRequest, MoveResponse, RemoveRequest, RemoveResponse,
    RemoveWatcherRequest, RemoveWatcherResponse, StatRequest, StatResponse, WatchDirRequest,
    WatchDirResponse, watch_dir_response,
};
use tokio::sync::Semaphore;
use watch::{Wanted, Watch};

use crate::{
    blocking::{Caller, blocking},
    error::error,
    state::Guest,
};

/// Watches at once, streamed and polled; the kernel gives each user a few only.
const MAX_WATCHES: usize = 32;
const KEEPALIVE_DEFAULT: Duration = Duration::from_secs(90);

pub(crate) struct FilesystemService {
    guest: Arc<Guest>,
    watchers: Mutex<HashMap<String, Watch>>,
    next_watcher: AtomicU64,
    room: Arc<Semaphore>,
}

impl FilesystemService {
    pub fn new(guest: Arc<Guest>) -> Self {
        Self {
            guest,
            watchers: Mutex::default(),
            next_watcher: AtomicU64::new(1),
            room: Arc::new(Semaphore::new(MAX_WATCHES)),
        }
    }

    async fn do_with<Q: Send + 'static, A: Send + 'static>(
        &self,
        request: Q,
        work: fn(&Guest, &Q, &Caller) -> Result<A, ConnectError>,
    ) -> ServiceResult<A> {
        let guest = Arc::clone(&self.guest);
        Response::ok(blocking(move |caller| work(&guest, &request, caller)).await?)
    }

    async fn watch(&self, path: String, wanted: Wanted) -> Result<Watch, ConnectError> {
        let dir = self.guest.place(&path)?;
        let permit = Arc::clone(&self.room).try_acquire_owned().map_err(|_| {
            error(
                ErrorCode::SandboxExhausted,
                "too many folders are being watched",
            )
        })?;
        Watch::start(dir, wanted, path, permit).await
    }

    fn watcher(&self, id: &str) -> Result<Watch, ConnectError> {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.get(id).cloned().ok_or_else(no_watcher)
    }
}

fn no_watcher() -> ConnectError {
    ConnectError::not_found("there is no such watcher")
}

/// A stream of what a watch tells.
struct Telling {
    watch: Watch,
    keepalive: Duration,
    /// Taken from the watch and not told yet.
    next: VecDeque<watch_dir_response::Event>,
}

impl Telling {
    async fn next(mut self) -> Result<Option<(WatchDirResponse, Self)>, ConnectError> {
        while self.next.is_empty() {
            // The wait alone is cut short: what has been taken must be told.
            match tokio::time::timeout(self.keepalive, self.watch.changed()).await {
                Ok(changed) => {
                    changed?;
                    let events = self.watch.take_or_rest().await?;
                    self.next.extend(events.into_iter().map(Into::into));
                }
                Err(_) => self
                    .next
                    .push_back(watch_dir_response::KeepAlive::default().into()),
            }
        }
        let message = WatchDirResponse {
            event: self.next.pop_front(),
            ..Default::default()
        };
        Ok(Some((message, self)))
    }
}

fn keepalive(context: &RequestContext) -> Duration {
    context
        .header("keepalive-ping-interval")
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .filter(|seconds| *seconds > 0)
        .map_or(KEEPALIVE_DEFAULT, Duration::from_secs)
}

impl Filesystem for FilesystemService {
    async fn stat(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, StatRequest>,
    ) -> ServiceResult<StatResponse> {
        self.do_with(request.to_owned_message(), tree::stat).await
    }

    async fn make_dir(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, MakeDirRequest>,
    ) -> ServiceResult<MakeDirResponse> {
        self.do_with(request.to_owned_message(), tree::make_dir)
            .await
    }

    async fn r#move(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, MoveRequest>,
    ) -> ServiceResult<MoveResponse> {
        self.do_with(request.to_owned_message(), tree::move_entry)
            .await
    }

    async fn list_dir(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ListDirRequest>,
    ) -> ServiceResult<ListDirResponse> {
        self.do_with(request.to_owned_message(), tree::list_dir)
            .await
    }

    async fn remove(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RemoveRequest>,
    ) -> ServiceResult<RemoveResponse> {
        self.do_with(request.to_owned_message(), tree::remove).await
    }

    async fn watch_dir(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, WatchDirRequest>,
    ) -> ServiceResult<ServiceStream<WatchDirResponse>> {
        let request = request.to_owned_message();
        let wanted = Wanted {
            recursive: request.recursive,
            with_entry: request.include_entry,
            from_afar: request.allow_network_mounts,
        };
        let telling = Telling {
            watch: self.watch(request.path, wanted).await?,
            keepalive: keepalive(&context),
            next: VecDeque::from([watch_dir_response::StartEvent::default().into()]),
        };
        Ok(Response::stream(stream::try_unfold(telling, Telling::next)))
    }

    async fn create_watcher(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, CreateWatcherRequest>,
    ) -> ServiceResult<CreateWatcherResponse> {
        let request = request.to_owned_message();
        let wanted = Wanted {
            recursive: request.recursive,
            with_entry: request.include_entry,
            from_afar: request.allow_network_mounts,
        };
        let watch = self.watch(request.path, wanted).await?;
        let watcher_id = format!("w{}", self.next_watcher.fetch_add(1, Ordering::Relaxed));
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
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
        let events: Vec<FilesystemEvent> = self.watcher(request.watcher_id)?.take().await?;
        Response::ok(GetWatcherEventsResponse {
            events,
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
