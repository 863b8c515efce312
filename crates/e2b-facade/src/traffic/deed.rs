//! What is done through envd, for the audit trail: read from the request as it passes.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Uri, header, request::Parts};
use http_body::{Body as HttpBody, Frame, SizeHint};
use sandbox_audit::Pending;
use sandbox_store::{AuditAction, AuditRecord};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::{sandbox::Found, state::Facade};

/// Of a request that is read along; a longer command is recorded without its hash.
const MAX_BYTES: usize = 1 << 20;
/// Flags and length before a message (Connect's protocol, "Streaming RPCs").
const FRAME_HEAD: usize = 5;
const MAX_PATH_CHARS: usize = 4096;

/// What a request to envd does, and what is known of it so far.
pub(super) struct Deed {
    seen: Seen,
    is_json: bool,
    pending: Option<Pending>,
}

type Seen = Arc<Mutex<Kept>>;

#[derive(Default)]
struct Kept {
    /// Its beginning, as far as it is looked at.
    head: Vec<u8>,
    bytes: u64,
}

fn action(method: &Method, path: &str) -> Option<AuditAction> {
    match (method, path) {
        (&Method::POST, "/process.Process/Start") => Some(AuditAction::ProcessStarted),
        (&Method::POST, "/files" | "/files/compose") => Some(AuditAction::Write),
        (&Method::POST, "/filesystem.Filesystem/Remove") => Some(AuditAction::Delete),
        (&Method::POST, "/filesystem.Filesystem/Move") => Some(AuditAction::Move),
        _ => None,
    }
}

impl Deed {
    /// The body, and what will know what passed; nothing is kept of what only looks.
    pub(super) fn watch(
        facade: &Facade,
        found: &Found,
        head: &Parts,
        body: Body,
    ) -> (Body, Option<Self>) {
        let Some(action) = action(&head.method, head.uri.path()) else {
            return (body, None);
        };
        let seen = Seen::default();
        let kind = head.headers.get(header::CONTENT_TYPE);
        // Who has its token; which key that came from is not known.
        let subject = format!("sandbox:{}", found.key.session);
        let pending = facade.audit.begin(&found.key, subject, action);
        let deed = Self {
            seen: Arc::clone(&seen),
            is_json: kind.is_some_and(|kind| kind.as_bytes().ends_with(b"json")),
            pending: Some(pending.with(|record| record.path = path_of(&head.uri))),
        };
        // Of a file it is enough how much it was.
        let keep = match head.uri.path() {
            "/files" => 0,
            _ => MAX_BYTES,
        };
        (Body::new(Passing { body, seen, keep }), Some(deed))
    }

    /// The guest has answered, so that it has read what it was asked.
    pub(super) async fn record(mut self, outcome: &str) {
        if let Some(pending) = self.read() {
            pending.end(outcome).await;
        }
    }

    /// With what was read of the request.
    fn read(&mut self) -> Option<Pending> {
        let pending = self.pending.take()?;
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        Some(pending.with(|record| self.add(record, seen)))
    }

    fn add(&self, record: &mut AuditRecord, seen: Kept) {
        match record.action {
            AuditAction::ProcessStarted => {
                let command = self.is_json.then(|| argv(&seen.head)).flatten();
                let hashed = match command {
                    Some(argv) => argv.join("\0").into_bytes(),
                    // Of what was sent, where that cannot be read here.
                    None => seen.head,
                };
                let digest = Sha256::digest(&hashed);
                record.code_sha256 =
                    Some(digest.iter().map(|byte| format!("{byte:02x}")).collect());
            }
            AuditAction::Write if record.path.is_some() => record.bytes = Some(seen.bytes),
            _ if self.is_json => {
                record.path = named(&seen.head).or_else(|| record.path.take());
            }
            _ => {}
        }
    }
}

/// A client that goes away has started what it has sent.
impl Drop for Deed {
    fn drop(&mut self) {
        drop(self.read());
    }
}

fn path_of(uri: &Uri) -> Option<String> {
    let query = uri.query().unwrap_or_default().as_bytes();
    let mut pairs = form_urlencoded::parse(query);
    let (_, path) = pairs.find(|(name, _)| name == "path")?;
    Some(cut(&path))
}

/// What a call of the file system's changes.
fn named(message: &[u8]) -> Option<String> {
    // Of a move it is where from.
    let all: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(message).ok()?;
    ["path", "source", "destination"]
        .iter()
        .find_map(|name| all.get(*name)?.as_str().map(cut))
}

fn cut(path: &str) -> String {
    path.chars().take(MAX_PATH_CHARS).collect()
}

#[derive(Deserialize)]
struct Start {
    process: Process,
}

#[derive(Deserialize)]
struct Process {
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
}

/// The command of the one frame of a start.
fn argv(seen: &[u8]) -> Option<Vec<String>> {
    let (head, message) = seen.split_at_checked(FRAME_HEAD)?;
    let length = u32::from_be_bytes(head[1..].try_into().ok()?);
    let message = message.get(..usize::try_from(length).ok()?)?;
    let start: Start = serde_json::from_slice(message).ok()?;
    let mut argv = vec![start.process.cmd];
    argv.extend(start.process.args);
    Some(argv)
}

/// A body that is seen as it passes, as far as is kept.
struct Passing {
    body: Body,
    seen: Seen,
    /// How much of its beginning.
    keep: usize,
}

impl HttpBody for Passing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let room = self.keep.saturating_sub(seen.head.len()).min(data.len());
            seen.bytes += data.len() as u64;
            seen.head.extend_from_slice(&data[..room]);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_start_is_read() {
        let message = br#"{"process":{"cmd":"/bin/bash","args":["-l","-c","echo hi"],"envs":{}},"stdin":false}"#;
        let mut frame = vec![0];
        frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        frame.extend(message);
        let command = ["/bin/bash", "-l", "-c", "echo hi"].map(str::to_owned);
        assert_eq!(argv(&frame), Some(command.to_vec()));
        for cut in [0, 4, 5, frame.len() - 1] {
            assert_eq!(argv(&frame[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn what_is_changed_is_named() {
        assert_eq!(named(br#"{"path":"/a"}"#).as_deref(), Some("/a"));
        let moved = br#"{"source":"/a","destination":"/b"}"#;
        assert_eq!(named(moved).as_deref(), Some("/a"));
        let composed = br#"{"source_paths":["/a"],"destination":"/b"}"#;
        assert_eq!(named(composed).as_deref(), Some("/b"));
        for other in [&b"{}"[..], b"[]", b"{", br#"{"path":1}"#] {
            assert_eq!(named(other), None);
        }
        let uri = "/files?username=user&path=%2Ftmp%2Fa%20b".parse().unwrap();
        assert_eq!(path_of(&uri).as_deref(), Some("/tmp/a b"));
    }

    #[test]
    fn what_only_looks_is_no_deed() {
        for (method, path) in [
            (Method::GET, "/files"),
            (Method::POST, "/filesystem.Filesystem/ListDir"),
            (Method::POST, "/process.Process/List"),
        ] {
            assert_eq!(action(&method, path), None, "{path}");
        }
        let remove = action(&Method::POST, "/filesystem.Filesystem/Remove");
        assert_eq!(remove, Some(AuditAction::Delete));
    }
}
