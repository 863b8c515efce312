//! Programs that are started, for the audit trail: read from the request as it passes.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use sandbox_core::{Error, SessionKey};
use sandbox_store::{AuditAction, AuditRecord};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::{sandbox::Found, state::Facade};

/// Of a request that is read along; a longer command is recorded without its hash.
const MAX_BYTES: usize = 1 << 20;
/// Flags and length before a message (Connect's protocol, "Streaming RPCs").
const FRAME_HEAD: usize = 5;

/// What is known of a start that is under way.
pub(super) struct Started {
    key: SessionKey,
    seen: Seen,
    is_json: bool,
    at: sandbox_core::Timestamp,
    began: std::time::Instant,
}

type Seen = Arc<Mutex<Vec<u8>>>;

impl Started {
    /// The body, and what will know what passed.
    pub(super) fn watch(
        facade: &Facade,
        found: &Found,
        headers: &HeaderMap,
        body: Body,
    ) -> (Body, Self) {
        let seen = Seen::default();
        let kind = headers.get(header::CONTENT_TYPE);
        let started = Self {
            key: found.key.clone(),
            seen: Arc::clone(&seen),
            is_json: kind.is_some_and(|kind| kind.as_bytes().ends_with(b"json")),
            at: facade.clock.now(),
            began: std::time::Instant::now(),
        };
        (Body::new(Passing { body, seen }), started)
    }

    /// The guest has answered, so that it has read what it was asked.
    pub(super) async fn record(self, facade: &Facade, error: Option<&Error>) {
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let command = self.is_json.then(|| argv(&seen)).flatten();
        let hashed = match &command {
            Some(argv) => argv.join("\0").into_bytes(),
            // Of what was sent, where that cannot be read here.
            None => seen,
        };
        let digest = Sha256::digest(&hashed);
        let sandbox = self.key.session.clone();
        facade
            .audit
            .record(AuditRecord {
                id: facade.audit.new_id(),
                at: self.at,
                tenant: self.key.tenant,
                // Who has its token; which key that came from is not known.
                subject: format!("sandbox:{sandbox}"),
                session: Some(sandbox),
                action: AuditAction::ProcessStarted,
                execution: None,
                language: None,
                code_sha256: Some(digest.iter().map(|byte| format!("{byte:02x}")).collect()),
                code: None,
                path: None,
                outcome: error.map_or("ok", |error| error.code().as_str()).to_owned(),
                exit_code: None,
                bytes: None,
                duration_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
                request_id: None,
            })
            .await;
    }
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
            let room = MAX_BYTES.saturating_sub(seen.len()).min(data.len());
            seen.extend_from_slice(&data[..room]);
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
}
