//! The service `sandbox.v1.Search`.

mod glob;
mod grep;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use connectrpc::{ConnectError, RequestContext, Response, ServiceRequest, ServiceResult};
use ignore::WalkBuilder;
use sandbox_wire::sandbox::v1::{GlobRequest, GlobResponse, GrepRequest, GrepResponse, Search};

use crate::{error::blocking, state::Guest};

pub(crate) struct SearchService(Arc<Guest>);

impl SearchService {
    pub fn new(guest: Arc<Guest>) -> Self {
        Self(guest)
    }

    async fn search<Q: Send + 'static, A: Send + 'static>(
        &self,
        request: Q,
        timeout_ms: u32,
        search: fn(&Path, &Q, &Limit) -> Result<A, ConnectError>,
    ) -> ServiceResult<A> {
        let limit = Limit {
            until: Instant::now() + Duration::from_millis(timeout_ms.into()),
            left: Arc::default(),
        };
        // Set when the caller has gone, for the work is on a thread of its own.
        let _gone = SetOnDrop(Arc::clone(&limit.left));
        let guest = Arc::clone(&self.0);
        Response::ok(blocking(move || search(&guest.workspace, &request, &limit)).await?)
    }
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// When a search must end.
struct Limit {
    until: Instant,
    left: Arc<AtomicBool>,
}

impl Limit {
    fn reached(&self) -> bool {
        self.left.load(Ordering::Relaxed) || Instant::now() >= self.until
    }
}

/// Walks in the order of names, and never through a link.
fn walk(root: &Path, hidden: bool, no_ignore: bool) -> WalkBuilder {
    let mut walk = WalkBuilder::new(root);
    walk.hidden(!hidden)
        .ignore(!no_ignore)
        .git_ignore(!no_ignore)
        .git_exclude(!no_ignore)
        // What is above the workspace, or whose home this is, has no say.
        .parents(false)
        .git_global(false)
        .require_git(false)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp);
    walk
}

impl Search for SearchService {
    async fn grep(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, GrepRequest>,
    ) -> ServiceResult<GrepResponse> {
        let request = request.to_owned_message();
        let timeout_ms = request.timeout_ms;
        self.search(request, timeout_ms, grep::grep).await
    }

    async fn glob(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, GlobRequest>,
    ) -> ServiceResult<GlobResponse> {
        let request = request.to_owned_message();
        let timeout_ms = request.timeout_ms;
        self.search(request, timeout_ms, glob::glob).await
    }
}
