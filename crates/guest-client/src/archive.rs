//! Whole trees in and out of a workspace.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use connectrpc::client::{CallOptions, ServerStream};
use futures::{Stream, StreamExt as _, stream};
use hyper::body::Incoming;
use sandbox_core::{Error, Result};
use sandbox_wire::sandbox::v1::{
    self as wire, __buffa::oneof::import_request::Part, __buffa::view::ExportResponseView,
};

use crate::{GuestClient, error::from_guest};

/// However fast a client sends.
const IMPORT_LIMIT: Duration = Duration::from_secs(3600);

type Body = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// What comes next of an archive that is sent.
enum Sending {
    Start(Box<wire::ImportStart>, Body),
    Data(Body),
    Done,
}

/// The bytes of an archive on their way.
pub struct ArchiveStream {
    parts: ServerStream<Incoming, ExportResponseView<'static>>,
}

impl GuestClient {
    /// Unpacks an archive, all of it or nothing; an error of `body` breaks it off
    /// and is the result.
    pub async fn import(
        &self,
        start: wire::ImportStart,
        body: impl Stream<Item = Result<Bytes>> + Send + 'static,
    ) -> Result<wire::ImportResponse> {
        let broken: Arc<Mutex<Option<Error>>> = Arc::default();
        let tell = Arc::clone(&broken);
        let sending = Sending::Start(Box::new(start), Box::pin(body));
        let messages = stream::unfold(sending, move |sending| {
            let tell = Arc::clone(&tell);
            async move { next(sending, &tell).await }
        });
        let options = CallOptions::default().with_timeout(IMPORT_LIMIT);
        let answer = self.workspace.import_with_options(messages, options).await;
        answer
            .map(|response| response.into_owned())
            .map_err(|error| {
                let broken = broken.lock().unwrap_or_else(PoisonError::into_inner).take();
                broken.unwrap_or_else(|| from_guest(error))
            })
    }

    /// Starts to pack a file or a folder; the stream has flow control.
    pub async fn export(&self, request: wire::ExportRequest) -> Result<ArchiveStream> {
        let parts = self.workspace.export(request).await.map_err(from_guest)?;
        Ok(ArchiveStream { parts })
    }
}

async fn next(
    sending: Sending,
    broken: &Mutex<Option<Error>>,
) -> Option<(wire::ImportRequest, Sending)> {
    let (part, sending) = match sending {
        Sending::Start(start, body) => (Part::Start(start), Sending::Data(body)),
        Sending::Data(mut body) => match body.next().await {
            Some(Ok(data)) => (Part::Data(data.into()), Sending::Data(body)),
            Some(Err(error)) => {
                *broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return None;
            }
            None => (Part::End(true), Sending::Done),
        },
        Sending::Done => return None,
    };
    let message = wire::ImportRequest {
        part: Some(part),
        ..Default::default()
    };
    Some((message, sending))
}

impl ArchiveStream {
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let message = self.parts.message().await.map_err(from_guest)?;
        Ok(message.map(|message| message.to_owned_message().data.into()))
    }
}
