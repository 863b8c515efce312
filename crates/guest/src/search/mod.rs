//! The service `sandbox.v1.Search`.

mod glob;
mod grep;
mod walk;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use connectrpc::{ConnectError, RequestContext, Response, ServiceRequest, ServiceResult};
use guest_parts::search::Limit;
use sandbox_wire::sandbox::v1::{GlobRequest, GlobResponse, GrepRequest, GrepResponse, Search};

use crate::{blocking::blocking, state::Guest};

pub(crate) struct SearchService(Arc<Guest>);

impl SearchService {
    pub fn new(guest: Arc<Guest>) -> Self {
        Self(guest)
    }

    async fn search<Q: Send + 'static, A: Send + 'static>(
        &self,
        request: Q,
        timeout_ms: u32,
        search: fn(&Path, &Q, &Limit<'_>) -> Result<A, ConnectError>,
    ) -> ServiceResult<A> {
        let until = Instant::now() + Duration::from_millis(timeout_ms.into());
        let guest = Arc::clone(&self.0);
        let answer = blocking(move |caller| {
            let is_pointless = || caller.is_gone();
            let limit = Limit::new(until, &is_pointless);
            search(&guest.workspace, &request, &limit)
        });
        Response::ok(answer.await?)
    }
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
