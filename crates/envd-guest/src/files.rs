//! Files through `/files`: bytes on their way, never more than were asked for.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use connectrpc::{
    ConnectError,
    client::{ClientBody, ClientTransport as _, full_body},
};
use futures::stream;
use guest_parts::error::error;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited, StreamBody};
use hyper::body::Frame;
use sandbox_core::ErrorCode;
use serde::Deserialize;
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use uuid::Uuid;

use crate::{
    envd::{Envd, size, text},
    transport::Body,
    words::{lies, of_call, of_status},
};

/// For each step of an exchange: an answer to begin, or its next bytes.
const STEP_LIMIT: Duration = Duration::from_secs(25);
/// Largest answer that is no file: what was uploaded, or why not.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// Pieces of an upload that wait.
const AHEAD: usize = 4;
const PIECE_BYTES: usize = 64 * 1024;

fn late() -> ConnectError {
    of_call(&ConnectError::deadline_exceeded(""))
}

fn gone() -> ConnectError {
    of_call(&ConnectError::unavailable(""))
}

/// A part of a file on its way.
pub(crate) struct Download {
    envd: Envd,
    path: PathBuf,
    /// How large the file must be for all that was asked for.
    end: u64,
    body: Body,
    /// Of what comes, when envd sends more than the part.
    skip: u64,
    left: u64,
}

impl Download {
    /// The next bytes; a file that has become shorter ends early.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ConnectError> {
        while self.left > 0 {
            let frame = timeout(STEP_LIMIT, self.body.frame());
            let Some(frame) = frame.await.map_err(|_| late())? else {
                return Ok(None);
            };
            let Ok(frame) = frame else {
                return self.broken_off().await;
            };
            let Ok(mut data) = frame.into_data() else {
                continue;
            };
            let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX);
            let skipped = skipped.min(data.len());
            let _ = data.split_to(skipped);
            self.skip -= skipped as u64;
            data.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            if !data.is_empty() {
                self.left -= data.len() as u64;
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// envd has said how much comes, and cannot take it back when the file has become
    /// shorter.
    async fn broken_off(&mut self) -> Result<Option<Bytes>, ConnectError> {
        self.left = 0;
        match self.envd.exists(&self.path, "the file").await? {
            Some(entry) if size(&entry) >= self.end => Err(gone()),
            _ => Ok(None),
        }
    }

    /// All of it; the caller has bounded how much that may be.
    pub async fn collect(mut self) -> Result<Vec<u8>, ConnectError> {
        let mut all = Vec::new();
        while let Some(data) = self.next().await? {
            all.extend_from_slice(&data);
        }
        Ok(all)
    }
}

impl Envd {
    /// Starts to read a part of a regular file, whose size is known.
    ///
    /// *Requires*: it was looked at, for envd opens a FIFO and waits.
    pub(crate) async fn download(
        &self,
        path: &Path,
        part: Range<u64>,
        size: u64,
        shown: &str,
    ) -> Result<Download, ConnectError> {
        let mut request = Request::get(self.files_uri(Some(path))?);
        let is_part = part.start > 0 || part.end < size;
        if is_part && !part.is_empty() {
            let range = format!("bytes={}-{}", part.start, part.end - 1);
            request = request.header(header::RANGE, range);
        }
        let answer = self.send(request, full_body(Bytes::new())).await?;
        let skip = match answer.status() {
            StatusCode::OK => part.start,
            StatusCode::PARTIAL_CONTENT if is_part => 0,
            // It has become shorter.
            StatusCode::RANGE_NOT_SATISFIABLE => 0,
            _ => return Err(refusal(answer, shown).await),
        };
        let is_gone = answer.status() == StatusCode::RANGE_NOT_SATISFIABLE;
        Ok(Download {
            envd: self.clone(),
            path: path.to_owned(),
            end: part.end,
            body: answer.into_body(),
            skip,
            left: if is_gone {
                0
            } else {
                part.end.saturating_sub(part.start)
            },
        })
    }

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

    fn files_uri(&self, path: Option<&Path>) -> Result<String, ConnectError> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(path) = path {
            query.append_pair("path", &text(path)?);
        }
        if let Some(user) = &self.user {
            query.append_pair("username", user);
        }
        Ok(format!(
            "{}/files?{}",
            self.base.to_string().trim_end_matches('/'),
            query.finish()
        ))
    }

    async fn send(
        &self,
        request: http::request::Builder,
        body: ClientBody,
    ) -> Result<Response<Body>, ConnectError> {
        let request = request.body(body).map_err(|_| lies("no address"))?;
        let sending = self.transport.send(request);
        timeout(STEP_LIMIT, sending)
            .await
            .map_err(|_| late())?
            .map_err(|_| gone())
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

    /// A small answer of a plain route.
    pub(crate) async fn get_json<T: serde::de::DeserializeOwned>(
        &self,
        route: &str,
    ) -> Result<T, ConnectError> {
        let uri = format!("{}{route}", self.base.to_string().trim_end_matches('/'));
        let request = Request::builder().method(Method::GET).uri(uri);
        let answer = self.send(request, full_body(Bytes::new())).await?;
        if answer.status() != StatusCode::OK {
            return Err(refusal(answer, route).await);
        }
        let body = read(answer).await.ok_or_else(gone)?;
        serde_json::from_slice(&body).map_err(|_| lies("no JSON"))
    }
}

async fn read(answer: Response<Body>) -> Option<Bytes> {
    let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect();
    Some(timeout(STEP_LIMIT, body).await.ok()?.ok()?.to_bytes())
}

async fn refusal(answer: Response<Body>, shown: &str) -> ConnectError {
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
    }
    let status = answer.status();
    let body = read(answer).await.unwrap_or_default();
    let words = match serde_json::from_slice(&body) {
        Ok(Refusal { message }) => message,
        Err(_) => String::from_utf8_lossy(&body).into_owned(),
    };
    of_status(status, &words, shown)
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
