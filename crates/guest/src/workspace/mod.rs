//! The service `sandbox.v1.Workspace`.

pub(crate) mod open;
pub(crate) mod read;
mod tree;
mod write;

use std::{fs::File, io::Read as _, path::Path, sync::Arc};

use connectrpc::{
    ConnectError, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream,
};
use futures::stream;
use sandbox_wire::sandbox::v1::{
    EditRequest, EditResponse, ListEntriesRequest, ListEntriesResponse, ReadBytesRequest,
    ReadBytesResponse, ReadLinesRequest, ReadLinesResponse, RemoveEntryRequest,
    RemoveEntryResponse, RenameRequest, RenameResponse, Workspace, WriteRequest, WriteResponse,
};

use crate::{
    error::{blocking, from_io},
    state::Guest,
};

const CHUNK_BYTES: u64 = 64 * 1024;

pub(crate) struct WorkspaceService(Arc<Guest>);

impl WorkspaceService {
    pub fn new(guest: Arc<Guest>) -> Self {
        Self(guest)
    }

    async fn do_with<Q: Send + 'static, A: Send + 'static>(
        &self,
        request: Q,
        work: fn(&Path, &Q) -> Result<A, ConnectError>,
    ) -> ServiceResult<A> {
        let guest = Arc::clone(&self.0);
        Response::ok(blocking(move || work(&guest.workspace, &request)).await?)
    }
}

/// What is left to send of a file.
struct Left {
    file: Option<(File, u64)>,
    first: Option<ReadBytesResponse>,
}

async fn next_part(mut left: Left) -> Result<Option<(ReadBytesResponse, Left)>, ConnectError> {
    if let Some(first) = left.first.take() {
        return Ok(Some((first, left)));
    }
    let Some((mut file, length)) = left.file.take() else {
        return Ok(None);
    };
    let (file, data) = blocking(move || {
        let mut data = Vec::new();
        (&mut file)
            .take(length.min(CHUNK_BYTES))
            .read_to_end(&mut data)
            .map_err(|cause| from_io(&cause, "the file"))?;
        Ok((file, data))
    })
    .await?;
    // A file that has become shorter ends early.
    if data.is_empty() {
        return Ok(None);
    }
    let length = length - data.len() as u64;
    left.file = (length > 0).then_some((file, length));
    let part = ReadBytesResponse {
        part: Some(
            sandbox_wire::sandbox::v1::__buffa::oneof::read_bytes_response::Part::Data(data),
        ),
        ..Default::default()
    };
    Ok(Some((part, left)))
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
        let guest = Arc::clone(&self.0);
        let (info, file, length) =
            blocking(move || read::open_bytes(&guest.workspace, &request)).await?;
        let left = Left {
            file: Some((file, length)),
            first: Some(ReadBytesResponse {
                part: info.into(),
                ..Default::default()
            }),
        };
        // Read when asked for: a reader that stalls stops the reading.
        Ok(Response::stream(stream::try_unfold(left, next_part)))
    }

    async fn write(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, WriteRequest>,
    ) -> ServiceResult<WriteResponse> {
        self.do_with(request.to_owned_message(), write::write).await
    }

    async fn edit(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, EditRequest>,
    ) -> ServiceResult<EditResponse> {
        self.do_with(request.to_owned_message(), write::edit).await
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
        self.do_with(request.to_owned_message(), tree::rename).await
    }
}
