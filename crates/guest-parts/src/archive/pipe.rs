//! Bytes between an asynchronous stream and a thread, a few chunks ahead.

use std::io::{self, Read, Write};

use connectrpc::ConnectError;
use tokio::sync::mpsc;

/// Chunks that wait.
const AHEAD: usize = 8;
const CHUNK_BYTES: usize = 64 * 1024;

type Chunk = Result<Vec<u8>, ConnectError>;

/// What a thread reads, and who fills it.
pub fn input() -> (mpsc::Sender<Option<Vec<u8>>>, Input) {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let input = Input {
        receiver,
        chunk: Vec::new(),
        at: 0,
        complete: false,
    };
    (sender, input)
}

/// `None` is the end; without it the stream was broken off.
pub struct Input {
    receiver: mpsc::Receiver<Option<Vec<u8>>>,
    chunk: Vec<u8>,
    at: usize,
    complete: bool,
}

impl Input {
    /// Reads to the end, which is what a client waits for that still sends.
    pub fn drain(&mut self) -> io::Result<()> {
        io::copy(self, &mut io::sink()).map(drop)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.chunk.len() {
            if self.complete {
                return Ok(0);
            }
            match self.receiver.blocking_recv() {
                Some(Some(chunk)) => (self.chunk, self.at) = (chunk, 0),
                Some(None) => self.complete = true,
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        let size = buffer.len().min(self.chunk.len() - self.at);
        buffer[..size].copy_from_slice(&self.chunk[self.at..self.at + size]);
        self.at += size;
        Ok(size)
    }
}

/// What a thread writes, and who takes it.
pub fn output() -> (Output, mpsc::Receiver<Chunk>) {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let output = Output {
        sender,
        chunk: Vec::with_capacity(CHUNK_BYTES),
    };
    (output, receiver)
}

pub struct Output {
    sender: mpsc::Sender<Chunk>,
    chunk: Vec<u8>,
}

impl Output {
    /// Where an error is told, after which nothing comes.
    pub fn errors(&self) -> mpsc::Sender<Chunk> {
        self.sender.clone()
    }
}

impl Write for Output {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let size = data.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.extend_from_slice(&data[..size]);
        if self.chunk.len() == CHUNK_BYTES {
            self.flush()?;
        }
        Ok(size)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_BYTES));
        // Waits for a slow client; one that has gone ends the work.
        self.sender
            .blocking_send(Ok(chunk))
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
