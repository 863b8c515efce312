//! Files from `/files`: bytes on their way, never more than were asked for.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use connectrpc::{
    ConnectError,
    client::{ClientBody, ClientTransport as _, full_body},
};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;
use tokio::time::timeout;

use crate::{
    envd::{Envd, size, text},
    transport::Body,
    words::{lies, of_call, of_status},
};

/// For each step of an exchange: an answer to begin, or its next bytes.
pub(crate) const STEP_LIMIT: Duration = Duration::from_secs(25);
/// Largest answer that is no file: what was uploaded, or why not.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;
pub(crate) fn late() -> ConnectError {
    of_call(&ConnectError::deadline_exceeded(""))
}

pub(crate) fn gone() -> ConnectError {
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

    pub(crate) fn files_uri(&self, path: Option<&Path>) -> Result<String, ConnectError> {
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

pub(crate) async fn read(answer: Response<Body>) -> Option<Bytes> {
    let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect();
    Some(timeout(STEP_LIMIT, body).await.ok()?.ok()?.to_bytes())
}

pub(crate) async fn refusal(answer: Response<Body>, shown: &str) -> ConnectError {
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
