//! One output stream of a run, from the program's pipe to its reader.

use std::io;

pub(crate) use guest_parts::output::Wanted;
use guest_parts::output::{CHUNK, Kept};
use sandbox_wire::sandbox::v1::{OutputFile, Stream};
use tokio::{net::unix::pipe, sync::watch};

use super::{
    EventSender,
    spill::{Spill, Spilling},
};

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
        let is_over = self.spill.as_ref().is_some_and(Spill::is_over);
        let file = match self.spill {
            Some(spill) => spill.finish().await,
            None => None,
        };
        Followed {
            bytes,
            is_over,
            file,
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
