//! The service `sandbox.v1.Contexts`, which takes a guest inside.

use connectrpc::{ConnectError, RequestContext, ServiceRequest, ServiceResult, ServiceStream};
use guest_parts::error::error;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{
    Contexts, DeleteContextRequest, DeleteContextResponse, ListContextsRequest,
    ListContextsResponse, RestartContextRequest, RestartContextResponse, RunInContextRequest,
    RunResponse,
};

pub(crate) struct ContextService;

fn unsupported() -> ConnectError {
    error(
        ErrorCode::Unsupported,
        "there are no contexts in this sandbox: our guest cannot be put into it",
    )
}

impl Contexts for ContextService {
    async fn run(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, RunInContextRequest>,
    ) -> ServiceResult<ServiceStream<RunResponse>> {
        Err(unsupported())
    }

    async fn list(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, ListContextsRequest>,
    ) -> ServiceResult<ListContextsResponse> {
        Err(unsupported())
    }

    async fn restart(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, RestartContextRequest>,
    ) -> ServiceResult<RestartContextResponse> {
        Err(unsupported())
    }

    async fn delete(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, DeleteContextRequest>,
    ) -> ServiceResult<DeleteContextResponse> {
        Err(unsupported())
    }
}
