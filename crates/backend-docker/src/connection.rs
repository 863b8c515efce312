//! A container's standard streams as one stream of bytes, both ways.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use bollard::container::{AttachContainerResults, LogOutput};
use bytes::Bytes;
use futures::StreamExt as _;
use tokio::io::{AsyncRead, AsyncWrite, Join};
use tokio_util::io::StreamReader;

/// Kept of what the guest or the runtime complains about.
const COMPLAINT_BYTES: usize = 8 * 1024;

/// What came on standard error.
#[derive(Clone, Default)]
pub(crate) struct Complaint(Arc<Mutex<Vec<u8>>>);

impl Complaint {
    fn add(&self, message: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = COMPLAINT_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(&message[..message.len().min(room)]);
    }

    pub fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}

type Input = Pin<Box<dyn AsyncWrite + Send>>;
type Output = Pin<Box<dyn AsyncRead + Send>>;
pub(crate) type Connection = Join<Output, Input>;

/// What the guest speaks over, and what it complained about.
pub(crate) fn connection(attached: AttachContainerResults) -> (Connection, Complaint) {
    let complaint = Complaint::default();
    let complaints = complaint.clone();
    let stdout = attached.output.filter_map(move |part| {
        let part = match part {
            Ok(LogOutput::StdOut { message }) => Some(Ok::<Bytes, io::Error>(message)),
            Ok(LogOutput::StdErr { message }) => {
                complaints.add(&message);
                None
            }
            Ok(LogOutput::StdIn { .. } | LogOutput::Console { .. }) => None,
            Err(error) => Some(Err(io::Error::other(error))),
        };
        std::future::ready(part)
    });
    let output: Output = Box::pin(StreamReader::new(stdout));
    (tokio::io::join(output, attached.input), complaint)
}
