//! What is kept of one output stream of a run: all of it as it comes, or its head as
//! it comes and its tail at the end.

use std::collections::VecDeque;

use connectrpc::ConnectError;
use sandbox_wire::sandbox::v1::{Output, RunResponse, Stream};
use tokio::sync::mpsc;

/// Largest piece that is sent.
pub const CHUNK: usize = 32 * 1024;

pub type EventSender = mpsc::Sender<Result<RunResponse, ConnectError>>;

/// What is sent of a stream.
#[derive(Clone, Copy)]
pub enum Wanted {
    All,
    /// This many bytes: the first half and the last one.
    HeadAndTail(u64),
}

pub struct Kept {
    stream: Stream,
    events: EventSender,
    head_left: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    total: u64,
    sent: u64,
    /// Before the first byte.
    dropped: u64,
}

impl Kept {
    pub fn new(stream: Stream, wanted: Wanted, events: EventSender) -> Self {
        let (head_left, tail_limit) = match wanted {
            Wanted::All => (usize::MAX, 0),
            Wanted::HeadAndTail(limit) => {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                (limit - limit / 2, limit / 2)
            }
        };
        Self {
            stream,
            events,
            head_left,
            tail: VecDeque::new(),
            tail_limit,
            total: 0,
            sent: 0,
            dropped: 0,
        }
    }

    /// How much there was so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What of the stream nobody has seen.
    pub fn dropped(&mut self, bytes: u64) {
        self.dropped = bytes;
        self.total = bytes;
        self.sent = bytes;
    }

    /// Waits for the reader: a full channel holds the program, not memory.
    async fn send(&mut self, data: Vec<u8>, omitted_before: u64) {
        self.sent += data.len() as u64;
        let output = Output {
            stream: self.stream.into(),
            data,
            omitted_before: omitted_before + std::mem::take(&mut self.dropped),
            ..Default::default()
        };
        let event = RunResponse {
            event: output.into(),
            ..Default::default()
        };
        // A reader that is gone ends the run elsewhere.
        let _ = self.events.send(Ok(event)).await;
    }

    /// Sends what was held back; gives the stream's full size.
    pub async fn finish(mut self) -> u64 {
        let mut omitted = self.total - self.sent - self.tail.len() as u64;
        let tail = std::mem::take(&mut self.tail);
        let (front, back) = tail.as_slices();
        for piece in front.chunks(CHUNK).chain(back.chunks(CHUNK)) {
            self.send(piece.to_vec(), omitted).await;
            omitted = 0;
        }
        self.total
    }

    pub async fn take(&mut self, data: &[u8]) {
        self.total += data.len() as u64;
        let (head, rest) = data.split_at(self.head_left.min(data.len()));
        if !head.is_empty() {
            self.head_left -= head.len();
            self.send(head.to_vec(), 0).await;
        }
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }
}

#[cfg(test)]
mod tests {
    use sandbox_wire::sandbox::v1::__buffa::oneof::run_response::Event;

    use super::*;

    async fn kept(wanted: Wanted, pieces: &[&[u8]]) -> (Vec<(Vec<u8>, u64)>, u64) {
        let (events, mut sent) = mpsc::channel(100);
        let mut kept = Kept::new(Stream::STREAM_STDOUT, wanted, events);
        for piece in pieces {
            kept.take(piece).await;
        }
        let total = kept.finish().await;
        let mut outputs = Vec::new();
        while let Some(Ok(response)) = sent.recv().await {
            if let Some(Event::Output(output)) = response.event {
                outputs.push((output.data, output.omitted_before));
            }
        }
        (outputs, total)
    }

    #[tokio::test]
    async fn a_short_stream_is_sent_whole() {
        let (sent, total) = kept(Wanted::HeadAndTail(10), &[b"abc", b"defgh"]).await;
        let bytes: Vec<u8> = sent.iter().flat_map(|(data, _)| data.clone()).collect();
        assert_eq!((bytes.as_slice(), total), (&b"abcdefgh"[..], 8));
        assert!(sent.iter().all(|(_, omitted)| *omitted == 0));
    }

    #[tokio::test]
    async fn of_a_long_stream_head_and_tail_are_sent_and_the_rest_is_counted() {
        let (sent, total) = kept(Wanted::HeadAndTail(6), &[b"abcd", b"efghij", b"klm"]).await;
        assert_eq!(sent, [(b"abc".to_vec(), 0), (b"klm".to_vec(), 7)],);
        assert_eq!(total, 13);
    }

    #[tokio::test]
    async fn of_what_is_wanted_whole_nothing_is_held_back() {
        let (sent, total) = kept(Wanted::All, &[b"abcd", b"efghij"]).await;
        assert_eq!(sent, [(b"abcd".to_vec(), 0), (b"efghij".to_vec(), 0)]);
        assert_eq!(total, 10);
    }
}
