//! The service `sandbox.v1.Search`.

mod glob;
mod grep;
mod ignored;
mod matches;
mod walk;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use connectrpc::{ConnectError, RequestContext, Response, ServiceRequest, ServiceResult};
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{GlobRequest, GlobResponse, GrepRequest, GrepResponse, Search};

use crate::{
    blocking::{Caller, blocking},
    error::error,
    state::Guest,
};

const MAX_GLOB_BYTES: usize = 4096;
/// Braces within braces; `globset` recurses into them without a bound.
const MAX_GLOB_DEPTH: usize = 16;

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
            let limit = Limit { until, caller };
            search(&guest.workspace, &request, &limit)
        });
        Response::ok(answer.await?)
    }
}

/// When a search must end.
struct Limit<'a> {
    until: Instant,
    caller: &'a Caller,
}

impl Limit<'_> {
    fn reached(&self) -> bool {
        self.caller.is_gone() || Instant::now() >= self.until
    }
}

fn invalid_pattern(cause: impl ToString) -> ConnectError {
    error(ErrorCode::InvalidPattern, cause.to_string())
}

fn is_too_complex(glob: &str) -> bool {
    let mut depth = 0_usize;
    let deepest = glob.bytes().fold(0, |deepest: usize, byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest.max(depth)
    });
    glob.len() > MAX_GLOB_BYTES || deepest > MAX_GLOB_DEPTH
}

fn check_glob(glob: &str) -> Result<(), ConnectError> {
    if is_too_complex(glob) {
        return Err(invalid_pattern(
            "the glob is longer than 4096 bytes, or its braces are nested too deep",
        ));
    }
    Ok(())
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
