//! One output stream of a run: all of it as it comes, or its head as it comes
//! and its tail at the end.

use std::{collections::VecDeque, io};

use sandbox_wire::sandbox::v1::{Output, OutputFile, RunResponse, Stream};
use tokio::{net::unix::pipe, sync::watch};

use super::{
    EventSender,
    spill::{Spill, Spilling},
};

/// Read at once; also the largest piece that is sent.
const CHUNK: usize = 32 * 1024;
/// Read at most after the program has ended, from what it left in the pipe.
const LEFT_IN_PIPE: usize = 1024 * 1024;

/// What is done with the output of a program.
pub(crate) trait Sink: Send {
    fn take(&mut self, data: &[u8]) -> impl Future<Output = ()> + Send;
}

/// Reads a pipe until its end, or until the program ended and it is empty.
pub(crate) async fn read_all(
    pipe: pipe::Receiver,
    ended: watch::Receiver<bool>,
    sink: &mut impl Sink,
) {
    if !read_until(&pipe, ended, sink).await {
        // Whoever still writes must not die of a closed pipe.
        tokio::spawn(discard(pipe));
    }
}

/// The same for a pipe that is read again later; true when it is at its end.
async fn read_until(
    pipe: &pipe::Receiver,
    mut ended: watch::Receiver<bool>,
    sink: &mut impl Sink,
) -> bool {
    let mut buffer = vec![0; CHUNK];
    loop {
        tokio::select! {
            biased;
            ready = pipe.readable() => {
                if ready.is_err() {
                    return true;
                }
            }
            // A child in the background may hold the pipe for ever.
            _ = ended.wait_for(|ended| *ended) => break,
        }
        match pipe.try_read(&mut buffer) {
            Ok(0) => return true,
            Ok(read) => sink.take(&buffer[..read]).await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return true,
        }
    }
    let mut left = LEFT_IN_PIPE;
    while left > 0 {
        // Of the kernel, not of the runtime: that may have learned of the program's
        // end and not yet of its last words.
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => return true,
            Ok(read) => {
                left = left.saturating_sub(read);
                sink.take(&buffer[..read]).await;
            }
            Err(_) => break,
        }
    }
    false
}

/// What is sent of a stream.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    All,
    /// This many bytes: the first half and the last one.
    HeadAndTail(u64),
}

/// What there was of a stream.
#[derive(Default)]
pub(crate) struct Followed {
    pub bytes: u64,
    pub file: Option<OutputFile>,
    /// It is larger than any stream may be.
    pub is_over: bool,
}

/// Sends what is wanted of a stream, and spills it where it is told to.
pub(super) async fn follow(
    stream: Stream,
    pipe: pipe::Receiver,
    wanted: Wanted,
    spilling: Option<Spilling>,
    events: EventSender,
    ended: watch::Receiver<bool>,
) -> Followed {
    let mut captured = Capture::new(stream, wanted, spilling, events);
    read_all(pipe, ended, &mut captured).await;
    captured.finish().await
}

/// What came of a stream before anybody asked for it.
#[derive(Default)]
pub(crate) struct Earlier {
    pub dropped: u64,
    pub data: Vec<u8>,
}

/// The same for a stream that goes on after this run.
pub(crate) async fn follow_on(
    stream: Stream,
    pipe: &pipe::Receiver,
    earlier: Earlier,
    wanted: Wanted,
    spilling: Option<Spilling>,
    events: EventSender,
    ended: watch::Receiver<bool>,
) -> Followed {
    let mut captured = Capture::new(stream, wanted, spilling, events);
    if !earlier.data.is_empty() {
        captured.kept.dropped(earlier.dropped);
        captured.take(&earlier.data).await;
    }
    read_until(pipe, ended, &mut captured).await;
    captured.finish().await
}

struct Capture {
    kept: Kept,
    spill: Option<Spill>,
}

impl Capture {
    fn new(
        stream: Stream,
        wanted: Wanted,
        spilling: Option<Spilling>,
        events: EventSender,
    ) -> Self {
        let name = match stream {
            Stream::STREAM_STDERR => "stderr",
            _ => "stdout",
        };
        Self {
            kept: Kept::new(stream, wanted, events),
            spill: spilling.map(|to| Spill::new(to, name)),
        }
    }

    async fn finish(self) -> Followed {
        let bytes = self.kept.finish().await;
        Followed {
            bytes,
            is_over: self.spill.as_ref().is_some_and(Spill::is_over),
            file: self.spill.and_then(Spill::finish),
        }
    }
}

impl Sink for Capture {
    async fn take(&mut self, data: &[u8]) {
        // First: somebody may be looking.
        self.kept.take(data).await;
        if let Some(spill) = &mut self.spill {
            spill.take(data).await;
        }
    }
}

/// Keeps those who write going until the last of them ends.
pub(crate) async fn discard(pipe: pipe::Receiver) {
    let mut buffer = vec![0; 4096];
    while pipe.readable().await.is_ok() {
        match pipe.try_read(&mut buffer) {
            Ok(0) => break,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => break,
            _ => {}
        }
    }
}

struct Kept {
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
    fn new(stream: Stream, wanted: Wanted, events: EventSender) -> Self {
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

    fn dropped(&mut self, bytes: u64) {
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
    async fn finish(mut self) -> u64 {
        let mut omitted = self.total - self.sent - self.tail.len() as u64;
        let tail = std::mem::take(&mut self.tail);
        let (front, back) = tail.as_slices();
        for piece in front.chunks(CHUNK).chain(back.chunks(CHUNK)) {
            self.send(piece.to_vec(), omitted).await;
            omitted = 0;
        }
        self.total
    }
}

impl Kept {
    async fn take(&mut self, data: &[u8]) {
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
    use super::*;
    use sandbox_wire::sandbox::v1::__buffa::oneof::run_response::Event;
    use tokio::sync::mpsc;

    struct All(Vec<u8>);

    impl Sink for All {
        async fn take(&mut self, data: &[u8]) {
            self.0.extend(data);
        }
    }

    #[tokio::test]
    async fn last_words_are_read_even_if_the_end_was_known_before() {
        let (theirs, ours) = super::super::output_pipe().unwrap();
        rustix::io::write(&theirs, b"last words").unwrap();
        let (_ended, has_ended) = watch::channel(true);
        let mut all = All(Vec::new());
        // The runtime has not looked at the pipe yet, and the writer is still there.
        read_all(ours, has_ended, &mut all).await;
        assert_eq!(all.0, b"last words");
        drop(theirs);
    }

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
