//! Files and search: each call is passed on, its errors made ours.

use bytes::Bytes;
use connectrpc::{
    ConnectError,
    client::{CallOptions, ServerStream},
};
use futures::Stream;
use hyper::body::Incoming;
use sandbox_core::{Error, ErrorCode, Result};
use sandbox_wire::sandbox::v1::{
    self as wire, __buffa::oneof::read_bytes_response::Part, __buffa::view::ReadBytesResponseView,
};
use std::time::Duration;

use crate::{GuestClient, error::from_guest};

/// For calls that should take milliseconds.
const CALL_LIMIT: Duration = Duration::from_secs(30);

macro_rules! calls {
    ($($(#[$doc:meta])* $client:ident.$name:ident => $method:ident($request:ident) -> $response:ident;)+) => {
        impl GuestClient {
            $(
                $(#[$doc])*
                pub async fn $name(&self, request: wire::$request) -> Result<wire::$response> {
                    let options = CallOptions::default().with_timeout(CALL_LIMIT);
                    self.$client
                        .$method(request, options)
                        .await
                        .map(|response| response.into_owned())
                        .map_err(from_guest)
                }
            )+
        }
    };
}

calls! {
    workspace.read_lines => read_lines_with_options(ReadLinesRequest) -> ReadLinesResponse;
    workspace.write => write_with_options(WriteRequest) -> WriteResponse;
    workspace.edit => edit_with_options(EditRequest) -> EditResponse;
    workspace.list => list_with_options(ListEntriesRequest) -> ListEntriesResponse;
    workspace.remove => remove_with_options(RemoveEntryRequest) -> RemoveEntryResponse;
    workspace.remove_artifacts => remove_artifacts_with_options(RemoveArtifactsRequest) -> RemoveArtifactsResponse;
    workspace.usage => usage_with_options(UsageRequest) -> UsageResponse;
    workspace.rename => rename_with_options(RenameRequest) -> RenameResponse;
    /// The request's own timeout must be shorter than the call's, 30 s.
    search.grep => grep_with_options(GrepRequest) -> GrepResponse;
    /// The request's own timeout must be shorter than the call's, 30 s.
    search.glob => glob_with_options(GlobRequest) -> GlobResponse;
}

/// The bytes of a file on their way.
pub struct FileStream {
    pub info: wire::FileInfo,
    parts: ServerStream<Incoming, ReadBytesResponseView<'static>>,
}

impl GuestClient {
    /// Opens a file and starts to send it; the stream has flow control.
    pub async fn read_bytes(&self, request: wire::ReadBytesRequest) -> Result<FileStream> {
        let mut parts = self
            .workspace
            .read_bytes(request)
            .await
            .map_err(from_guest)?;
        let first = parts.message().await.map_err(from_guest)?;
        match first.and_then(|message| message.to_owned_message().part) {
            Some(Part::Info(info)) => Ok(FileStream { info: *info, parts }),
            _ => Err(Error::new(
                ErrorCode::SandboxLost,
                "the sandbox ended during the call",
            )),
        }
    }
}

impl FileStream {
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let message = self.parts.message().await.map_err(from_guest)?;
        match message.map(|message| message.to_owned_message().part) {
            None => Ok(None),
            Some(Some(Part::Data(data))) => Ok(Some(data.into())),
            Some(_) => Err(from_guest(ConnectError::internal("a part of no kind"))),
        }
    }

    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes>> + Send {
        futures::stream::unfold(self, |mut file| async move {
            match file.next().await {
                Ok(None) => None,
                Ok(Some(data)) => Some((Ok(data), file)),
                Err(error) => Some((Err(error), file)),
            }
        })
    }
}
