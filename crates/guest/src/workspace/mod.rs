//! The service `sandbox.v1.Workspace`.

pub(crate) mod open;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod replace;
mod tree;
pub(crate) mod usage;
mod write;

use std::{path::Path, sync::Arc};

use connectrpc::{
    ConnectError, InboundStream, RequestContext, Response, ServiceRequest, ServiceResult,
    ServiceStream,
};
use futures::{StreamExt as _, stream};
use read::Chunks;
use sandbox_wire::sandbox::v1::{
    __buffa::oneof::read_bytes_response::Part, EditRequest, EditResponse, ExportRequest,
    ExportResponse, ImportRequest, ImportResponse, ListEntriesRequest, ListEntriesResponse,
    ReadBytesRequest, ReadBytesResponse, ReadLinesRequest, ReadLinesResponse,
    RemoveArtifactsRequest, RemoveArtifactsResponse, RemoveEntryRequest, RemoveEntryResponse,
    RenameRequest, RenameResponse, UsageRequest, UsageResponse, Workspace, WriteRequest,
    WriteResponse,
};

use crate::{
    archive, artifacts,
    blocking::{Caller, blocking},
    state::Guest,
    warm::Warm,
};

pub(crate) struct WorkspaceService {
    guest: Arc<Guest>,
    warm: Option<Warm>,
}

impl WorkspaceService {
    pub fn new(guest: Arc<Guest>, warm: Option<Warm>) -> Self {
        Self { guest, warm }
    }

    async fn do_with<Q: Send + 'static, A: Send + 'static>(
        &self,
        request: Q,
        work: impl FnOnce(&Path, &Q, &Caller) -> Result<A, ConnectError> + Send + 'static,
    ) -> ServiceResult<A> {
        let guest = Arc::clone(&self.guest);
        Response::ok(blocking(move |caller| work(&guest.workspace, &request, caller)).await?)
    }
}

fn response(part: Part) -> ReadBytesResponse {
    ReadBytesResponse {
        part: Some(part),
        ..Default::default()
    }
}

async fn next_part(left: Chunks) -> Result<Option<(ReadBytesResponse, Chunks)>, ConnectError> {
    let next = left.next().await?;
    Ok(next.map(|(data, left)| (response(Part::Data(data)), left)))
}

impl Workspace for WorkspaceService {
    async fn read_lines(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ReadLinesRequest>,
    ) -> ServiceResult<ReadLinesResponse> {
        self.do_with(request.to_owned_message(), read::read_lines)
            .await
    }

    async fn read_bytes(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ReadBytesRequest>,
    ) -> ServiceResult<ServiceStream<ReadBytesResponse>> {
        let request = request.to_owned_message();
        let guest = Arc::clone(&self.guest);
        let (info, chunks) =
            blocking(move |_| read::open_bytes(&guest.workspace, &request)).await?;
        let first = stream::iter([Ok(response(info.into()))]);
        // Read when asked for: a reader that stalls stops the reading.
        Ok(Response::stream(
            first.chain(stream::try_unfold(chunks, next_part)),
        ))
    }

    async fn write(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, WriteRequest>,
    ) -> ServiceResult<WriteResponse> {
        self.guest.disk.check()?;
        self.do_with(request.to_owned_message(), |w, r, _| write::write(w, r))
            .await
    }

    async fn edit(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, EditRequest>,
    ) -> ServiceResult<EditResponse> {
        self.guest.disk.check()?;
        self.do_with(request.to_owned_message(), |w, r, _| write::edit(w, r))
            .await
    }

    async fn list(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ListEntriesRequest>,
    ) -> ServiceResult<ListEntriesResponse> {
        self.do_with(request.to_owned_message(), tree::list).await
    }

    async fn remove(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RemoveEntryRequest>,
    ) -> ServiceResult<RemoveEntryResponse> {
        self.do_with(request.to_owned_message(), tree::remove).await
    }

    async fn rename(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RenameRequest>,
    ) -> ServiceResult<RenameResponse> {
        self.do_with(request.to_owned_message(), |w, r, _| tree::rename(w, r))
            .await
    }

    async fn import(
        &self,
        _: RequestContext,
        messages: InboundStream<ImportRequest>,
    ) -> ServiceResult<ImportResponse> {
        self.guest.disk.check()?;
        Response::ok(archive::import(Arc::clone(&self.guest), messages).await?)
    }

    async fn export(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ExportRequest>,
    ) -> ServiceResult<ServiceStream<ExportResponse>> {
        let request = request.to_owned_message();
        let chunks = archive::export(Arc::clone(&self.guest), request).await?;
        Ok(Response::stream(chunks))
    }

    async fn remove_artifacts(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RemoveArtifactsRequest>,
    ) -> ServiceResult<RemoveArtifactsResponse> {
        self.do_with(request.to_owned_message(), artifacts::remove)
            .await
    }
    async fn usage(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, UsageRequest>,
    ) -> ServiceResult<UsageResponse> {
        let used = self.do_with(request.to_owned_message(), usage::usage);
        let mut used = used.await?;
        if let Some(warm) = &self.warm {
            used.body.warm_python_bytes = Some(warm.memory_bytes().await);
        }
        Ok(used)
    }
}
