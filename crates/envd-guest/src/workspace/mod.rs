//! The service `sandbox.v1.Workspace`.

mod read;
mod tree;
mod write;

use std::{path::PathBuf, sync::Arc};

use connectrpc::{
    ConnectError, InboundStream, RequestContext, Response, ServiceRequest, ServiceResult,
    ServiceStream,
};
use guest_parts::path;
use sandbox_wire::sandbox::v1::{
    EditRequest, EditResponse, ExportRequest, ExportResponse, ImportRequest, ImportResponse,
    ListEntriesRequest, ListEntriesResponse, ReadBytesRequest, ReadBytesResponse, ReadLinesRequest,
    ReadLinesResponse, RemoveArtifactsRequest, RemoveArtifactsResponse, RemoveEntryRequest,
    RemoveEntryResponse, RenameRequest, RenameResponse, UsageRequest, UsageResponse, Workspace,
    WriteRequest, WriteResponse,
};

use crate::{archive, state::State};

pub(crate) struct WorkspaceService(pub Arc<State>);

impl State {
    /// The file that a path names, and how answers show it.
    pub fn path(&self, path: &str) -> Result<(PathBuf, String), ConnectError> {
        let file = path::in_workspace(&self.workspace, path)?;
        let shown = path::shown(&self.workspace, &file);
        Ok((file, shown))
    }
}

impl Workspace for WorkspaceService {
    async fn read_lines(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ReadLinesRequest>,
    ) -> ServiceResult<ReadLinesResponse> {
        Response::ok(read::read_lines(&self.0, &request.to_owned_message()).await?)
    }

    async fn read_bytes(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ReadBytesRequest>,
    ) -> ServiceResult<ServiceStream<ReadBytesResponse>> {
        let parts = read::read_bytes(&self.0, &request.to_owned_message()).await?;
        Ok(Response::stream(parts))
    }

    async fn write(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, WriteRequest>,
    ) -> ServiceResult<WriteResponse> {
        Response::ok(write::write(&self.0, &request.to_owned_message()).await?)
    }

    async fn edit(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, EditRequest>,
    ) -> ServiceResult<EditResponse> {
        Response::ok(write::edit(&self.0, &request.to_owned_message()).await?)
    }

    async fn list(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ListEntriesRequest>,
    ) -> ServiceResult<ListEntriesResponse> {
        Response::ok(tree::list(&self.0, &request.to_owned_message()).await?)
    }

    async fn remove(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RemoveEntryRequest>,
    ) -> ServiceResult<RemoveEntryResponse> {
        Response::ok(tree::remove(&self.0, &request.to_owned_message()).await?)
    }

    async fn rename(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RenameRequest>,
    ) -> ServiceResult<RenameResponse> {
        Response::ok(tree::rename(&self.0, &request.to_owned_message()).await?)
    }

    async fn import(
        &self,
        _: RequestContext,
        messages: InboundStream<ImportRequest>,
    ) -> ServiceResult<ImportResponse> {
        Response::ok(archive::import(&self.0, messages).await?)
    }

    async fn export(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, ExportRequest>,
    ) -> ServiceResult<ServiceStream<ExportResponse>> {
        let chunks = archive::export(&self.0, request.to_owned_message()).await?;
        Ok(Response::stream(chunks))
    }

    async fn remove_artifacts(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, RemoveArtifactsRequest>,
    ) -> ServiceResult<RemoveArtifactsResponse> {
        // None are ever kept.
        Response::ok(RemoveArtifactsResponse::default())
    }

    async fn usage(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, UsageRequest>,
    ) -> ServiceResult<UsageResponse> {
        Response::ok(tree::usage(&self.0).await?)
    }
}
