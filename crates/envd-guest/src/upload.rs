//! Files to `/files`, as parts of a form: what every version of envd takes.

use std::path::Path;

use bytes::{Bytes, BytesMut};
use connectrpc::{
    ConnectError,
    client::{ClientBody, ClientTransport as _},
};
use futures::stream;
use guest_parts::error::error;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use sandbox_core::ErrorCode;
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use uuid::Uuid;

use crate::{
    envd::Envd,
    files::{STEP_LIMIT, gone, late, read, refusal},
    transport::Body,
    words::lies,
};

/// Pieces of an upload that wait.
const AHEAD: usize = 4;
const PIECE_BYTES: usize = 64 * 1024;

impl Envd {
    /// Starts to send files: to `path` the only one, or each to where it says.
    pub(crate) fn upload(&self, path: Option<&Path>) -> Result<Upload, ConnectError> {
        // Only who knows it can end a file with it.
        let boundary = Uuid::new_v4().simple().to_string();
        let kind = format!("multipart/form-data; boundary={boundary}");
        let request = Request::post(self.files_uri(path)?).header(header::CONTENT_TYPE, kind);
        let (sender, mut pieces) = mpsc::channel(AHEAD);
        let body = StreamBody::new(stream::poll_fn(move |cx| pieces.poll_recv(cx))).boxed();
        let envd = self.clone();
        let answer = tokio::spawn(async move { envd.send_all(request, body).await });
        Ok(Upload {
            sender: Some(sender),
            answer: Some(answer),
            boundary,
            begun: false,
            small: BytesMut::new(),
        })
    }

    /// Puts a small file where nobody looks yet.
    pub(crate) async fn put(
        &self,
        path: &Path,
        data: &[u8],
        shown: &str,
    ) -> Result<(), ConnectError> {
        let mut upload = self.upload(Some(path))?;
        upload.file("file", shown).await?;
        upload.write(data, shown).await?;
        upload.finish(shown).await
    }

    /// Without a limit of time: each piece that is sent has its own.
    async fn send_all(
        &self,
        request: http::request::Builder,
        body: ClientBody,
    ) -> Result<Response<Body>, ConnectError> {
        let request = request.body(body).map_err(|_| lies("no address"))?;
        self.transport.send(request).await.map_err(|_| gone())
    }
}

type Piece = Result<Frame<Bytes>, ConnectError>;

/// Files on their way into the sandbox; one that is dropped is broken off.
pub(crate) struct Upload {
    sender: Option<mpsc::Sender<Piece>>,
    answer: Option<JoinHandle<Result<Response<Body>, ConnectError>>>,
    boundary: String,
    begun: bool,
    /// Not sent yet: HTTP/2 takes many small pieces for an attack, and a single empty one
    /// too many for the end of the connection.
    small: BytesMut,
}

impl Upload {
    /// Begins the next file.
    ///
    /// *Requires*: a name that needs no quoting, see [`is_plain`].
    pub async fn file(&mut self, name: &str, shown: &str) -> Result<(), ConnectError> {
        let end_before = if self.begun { "\r\n" } else { "" };
        self.begun = true;
        let head = format!(
            "{end_before}--{}\r\nContent-Disposition: form-data; name=\"file\"; \
             filename=\"{name}\"\r\nContent-Type: application/octet-stream\r\n\r\n",
            self.boundary
        );
        self.write(head.as_bytes(), shown).await
    }

    /// Waits for envd to take what came before.
    pub async fn write(&mut self, data: &[u8], shown: &str) -> Result<(), ConnectError> {
        for piece in data.chunks(PIECE_BYTES) {
            self.small.extend_from_slice(piece);
            if self.small.len() >= PIECE_BYTES {
                self.flush(shown).await?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self, shown: &str) -> Result<(), ConnectError> {
        let data = self.small.split().freeze();
        let Some(sender) = &self.sender else {
            return Err(gone());
        };
        match timeout(STEP_LIMIT, sender.send(Ok(Frame::data(data)))).await {
            Ok(Ok(())) => Ok(()),
            Err(_) => Err(late()),
            // It has answered already, and not that all is well.
            Ok(Err(_)) => match self.answer(shown).await {
                Err(cause) => Err(cause),
                Ok(()) => Err(lies("an answer to half an upload")),
            },
        }
    }

    pub async fn finish(mut self, shown: &str) -> Result<(), ConnectError> {
        let tail = format!("\r\n--{}--\r\n", self.boundary);
        self.write(tail.as_bytes(), shown).await?;
        self.flush(shown).await?;
        self.sender = None;
        self.answer(shown).await
    }

    async fn answer(&mut self, shown: &str) -> Result<(), ConnectError> {
        self.sender = None;
        let Some(answer) = self.answer.take() else {
            return Err(gone());
        };
        let abort = answer.abort_handle();
        let answer = match timeout(STEP_LIMIT, answer).await {
            Ok(Ok(answer)) => answer?,
            Ok(Err(_)) => return Err(error(ErrorCode::Internal, "the upload was broken off")),
            Err(_) => {
                abort.abort();
                return Err(late());
            }
        };
        match answer.status() {
            StatusCode::OK => read(answer).await.map(drop).ok_or_else(gone),
            _ => Err(refusal(answer, shown).await),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // Its body has no end yet, so that no envd takes it for whole.
        if let Some(answer) = &self.answer {
            answer.abort();
        }
    }
}

/// Whether a name can stand in a header as it is, for every parser alike.
pub(crate) fn is_plain(name: &str) -> bool {
    name.bytes()
        .all(|byte| matches!(byte, b' '..=b'~') && !b"\"\\%;".contains(&byte))
}
