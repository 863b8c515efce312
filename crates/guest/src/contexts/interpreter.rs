//! A living interpreter: its process, its streams, and the channel to it.

use std::{sync::Arc, time::Duration};

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;
use tokio::net::unix::pipe;

use super::{
    channel::{Channel, NoReply, Reply},
    driver::Driver,
    prepared::{Ends, Prepared},
    run::Wish,
};
use crate::{
    display::Display,
    error::error,
    life,
    run::{Control, Earlier, KILLED, Running, Starter, discard},
    state::Guest,
    supervise::control::Exit,
    warm::{Candidate, Warm},
};

/// How long it may take to be ready for code.
const START_LIMIT: Duration = Duration::from_secs(15);
/// The same of one that was forked, after which one is started.
const FORK_LIMIT: Duration = Duration::from_secs(5);
/// How long the end of a process may come after that of its channel.
const END_LIMIT: Duration = Duration::from_secs(1);
/// What is kept of a stream between two runs: the newest.
const MAX_EARLIER_BYTES: usize = 64 * 1024;
/// More than what a pipe holds.
const READS_AT_ONCE: usize = 17;
/// Of what it said before it failed to start.
const MAX_LAST_WORDS: usize = 500;
/// What a shell says of a command that it did not find.
const NOT_FOUND: i32 = 127;

/// What interpreters are made with.
#[derive(Clone)]
pub(super) struct Maker {
    pub guest: Arc<Guest>,
    pub starter: Starter,
    /// What some may be forked from.
    pub warm: Option<Warm>,
}

/// How an interpreter is started.
#[derive(Clone)]
pub(super) struct Spec {
    pub driver: Driver,
    pub argv: Vec<String>,
    pub data_bytes: Option<u64>,
    /// What its code displays is kept.
    pub artifacts: bool,
}

pub(super) struct Interpreter {
    pub process: Process,
    pub channel: Channel,
    pub stdout: Stream,
    pub stderr: Stream,
    pub display: Option<Display>,
    /// It was forked from an interpreter that was there.
    pub is_forked: bool,
    like: Option<(Warm, Candidate)>,
}

/// Its process, which may have ended.
pub(super) struct Process {
    pub pid: i32,
    running: Running,
    exit: Option<Exit>,
}

/// An output stream, and what came of it that belongs to no run yet.
pub(super) struct Stream {
    pub pipe: pipe::Receiver,
    pub earlier: Earlier,
}

impl Interpreter {
    /// `first` is the run that it is made for, if it is known.
    pub async fn start(
        maker: &Maker,
        spec: &Spec,
        first: Option<&Wish>,
    ) -> Result<Self, ConnectError> {
        let mut prepared = Prepared::new(&maker.guest, spec).await?;
        let like = prepared.candidate(maker, first);
        if let Some((warm, candidate)) = &like {
            match prepared.fork(warm, candidate).await {
                Ok(mut interpreter) => {
                    if let Some(Ok(Reply::Ready)) = interpreter.first_word(FORK_LIMIT).await {
                        interpreter.like = like;
                        return Ok(interpreter);
                    }
                    // Why it is not ready, one that is started will tell.
                    interpreter.end().await;
                    prepared = Prepared::new(&maker.guest, spec).await?;
                }
                Err(unused) => prepared = *unused,
            }
        }
        let mut interpreter = prepared.start(&maker.starter).await?;
        match interpreter.first_word(START_LIMIT).await {
            Some(Ok(Reply::Ready)) => {
                interpreter.like = like;
                Ok(interpreter)
            }
            Some(_) => Err(interpreter.failed(spec).await),
            None => {
                interpreter.end().await;
                Err(error(
                    ErrorCode::SandboxExhausted,
                    "the interpreter did not start in time",
                ))
            }
        }
    }

    pub fn new(running: Running, ends: Ends, is_forked: bool) -> Self {
        Self {
            process: Process::new(running),
            channel: ends.channel,
            stdout: ends.stdout,
            stderr: ends.stderr,
            display: ends.display,
            is_forked,
            like: None,
        }
    }

    /// Its first run is over: what the next one would be forked from is started now, when
    /// nobody waits.
    pub fn prepare_next(&mut self) {
        if let Some((warm, candidate)) = self.like.take() {
            warm.prepare_for(&candidate);
        }
    }

    /// `None` when it says nothing in time.
    async fn first_word(&mut self, limit: Duration) -> Option<Result<Reply, NoReply>> {
        life::timeout(limit, self.channel.next()).await.ok()
    }

    /// Why it is not ready, in its own words.
    async fn failed(mut self, spec: &Spec) -> ConnectError {
        let exit = self.process.exit_after(&NoReply::Closed).await;
        self.stderr.read_now();
        let said = String::from_utf8_lossy(&self.stderr.earlier.data).into_owned();
        let said = &said[said.ceil_char_boundary(said.len().saturating_sub(MAX_LAST_WORDS))..];
        self.end().await;
        if exit.is_some_and(|exit| exit.code == NOT_FOUND) {
            let program = spec.argv.first().map_or("", String::as_str);
            return error(
                ErrorCode::NotInstalled,
                format!("`{program}` is not installed in the sandbox"),
            );
        }
        error(
            ErrorCode::SandboxExhausted,
            format!("the interpreter did not start: {}", said.trim()),
        )
    }

    /// Reads what comes of it while it has no run, until it ends.
    pub async fn rest(&mut self) {
        loop {
            let is_open = tokio::select! {
                _ = self.process.ended() => return,
                is_open = self.stdout.read() => is_open,
                is_open = self.stderr.read() => is_open,
            };
            if !is_open {
                // Code has closed it; only the end matters now.
                self.process.ended().await;
                return;
            }
        }
    }

    /// Ends it and all that it started.
    pub async fn end(mut self) {
        self.process.kill().await;
        // What it has left behind, if it ended by itself, must not die of a closed pipe.
        tokio::spawn(discard(self.stdout.pipe));
        tokio::spawn(discard(self.stderr.pipe));
        if let Some(display) = self.display {
            let _ = tokio::task::spawn_blocking(move || drop(display)).await;
        }
    }
}

impl Process {
    fn new(running: Running) -> Self {
        Self {
            pid: running.pid,
            running,
            exit: None,
        }
    }

    pub fn control(&self) -> Control {
        self.running.control.clone()
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> Exit {
        match self.exit {
            Some(exit) => exit,
            None => *self.exit.insert(self.running.ended().await),
        }
    }

    pub async fn kill(&mut self) -> Exit {
        match self.exit {
            Some(exit) => exit,
            None => *self.exit.insert(self.running.end(Duration::ZERO).await),
        }
    }

    /// How it ended, if that is why it does not reply.
    pub async fn exit_after(&mut self, why: &NoReply) -> Option<Exit> {
        match why {
            NoReply::Nonsense => None,
            NoReply::Closed => life::timeout(END_LIMIT, self.ended()).await.ok(),
        }
    }

    pub fn exit(&self) -> Exit {
        self.exit.unwrap_or(KILLED)
    }
}

impl Stream {
    pub fn new(pipe: pipe::Receiver) -> Self {
        Self {
            pipe,
            earlier: Earlier::default(),
        }
    }

    /// Waits for output and keeps it; false at the stream's end.
    async fn read(&mut self) -> bool {
        self.pipe.readable().await.is_ok() && self.read_now()
    }

    fn read_now(&mut self) -> bool {
        let mut buffer = [0; 4096];
        // Not without an end: one that never stops must not keep the others waiting.
        for _ in 0..READS_AT_ONCE {
            match self.pipe.try_read(&mut buffer) {
                Ok(0) => return false,
                Ok(read) => self.keep(&buffer[..read]),
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    fn keep(&mut self, data: &[u8]) {
        let kept = &mut self.earlier;
        kept.data.extend_from_slice(data);
        // Not at each byte beyond: moving what is kept takes time.
        if kept.data.len() > 2 * MAX_EARLIER_BYTES {
            let over = kept.data.len() - MAX_EARLIER_BYTES;
            kept.data.drain(..over);
            kept.dropped += over as u64;
        }
    }
}
