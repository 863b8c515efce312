//! One process, and those who are attached to it.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use guest_client::GuestClient;
use sandbox_admission::Place;
use sandbox_core::{Error, ErrorCode, Result, SessionKey, Timestamp};
use sandbox_session::Lease;
use tokio::sync::watch;

use super::StartProcess;
use crate::{
    log::{Item, Log, Weighed},
    text::Decoder,
};

/// How long the end of a process that was killed is waited for.
const END_LIMIT: Duration = Duration::from_secs(10);

/// What a process does, as its readers learn of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// A terminal has this one stream.
    Stdout(Bytes),
    Stderr(Bytes),
    /// The last one: the end is known.
    Ended,
}

impl Weighed for ProcessEvent {
    fn weight(&self) -> usize {
        match self {
            Self::Stdout(data) | Self::Stderr(data) => data.len(),
            Self::Ended => 0,
        }
    }
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    pub at: Timestamp,
    /// 128+N for a signal N; `None` when its sandbox ended.
    pub exit_code: Option<i32>,
    pub signal: Option<u32>,
}

/// A process, running or not.
pub struct Process {
    id: String,
    key: SessionKey,
    name: Option<String>,
    argv: Vec<String>,
    terminal: bool,
    started: Timestamp,
    guest: GuestClient,
    pid: AtomicU32,
    printed: AtomicU64,
    log: Log<ProcessEvent>,
    end: OnceLock<ProcessEnd>,
    has_ended: watch::Sender<bool>,
}

impl Process {
    pub(super) fn new(
        id: String,
        start: &StartProcess,
        guest: GuestClient,
        started: Timestamp,
        ring_bytes: usize,
    ) -> Self {
        Self {
            id,
            key: start.key.clone(),
            name: start.name.clone(),
            argv: start.argv.clone(),
            terminal: start.terminal.is_some(),
            started,
            guest,
            pid: AtomicU32::new(0),
            printed: AtomicU64::new(0),
            log: Log::new(ring_bytes),
            end: OnceLock::new(),
            has_ended: watch::Sender::new(false),
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub fn argv(&self) -> &[String] {
        &self.argv
    }

    /// In its sandbox.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    pub fn has_terminal(&self) -> bool {
        self.terminal
    }

    pub fn started(&self) -> Timestamp {
        self.started
    }

    /// How much it has printed.
    pub fn output_bytes(&self) -> u64 {
        self.printed.load(Ordering::Relaxed)
    }

    /// The number of the last event.
    pub fn last_event(&self) -> u64 {
        self.log.last_id()
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<&ProcessEnd> {
        self.end.get()
    }

    /// Gives it input; waits until it has taken it.
    pub async fn write(&self, data: Bytes) -> Result<()> {
        self.check_running()?;
        self.guest.send_input(&self.id, data, self.terminal).await
    }

    pub async fn close_input(&self) -> Result<()> {
        self.check_running()?;
        self.guest.close_input(&self.id).await
    }

    pub async fn signal(&self, signal: u32) -> Result<()> {
        self.check_running()?;
        self.guest.send_signal(&self.id, signal).await
    }

    pub async fn resize(&self, columns: u16, rows: u16) -> Result<()> {
        self.check_running()?;
        self.guest.resize_terminal(&self.id, columns, rows).await
    }

    /// Waits for its end, but not for long.
    pub(super) async fn ended(&self) {
        let mut ended = self.has_ended.subscribe();
        let _ = tokio::time::timeout(END_LIMIT, ended.wait_for(|ended| *ended)).await;
    }

    fn check_running(&self) -> Result<()> {
        match self.end.get() {
            None => Ok(()),
            Some(_) => Err(Error::new(ErrorCode::ProcessEnded, "the process has ended")),
        }
    }

    pub(super) fn has_pid(&self, pid: u32) {
        self.pid.store(pid, Ordering::Relaxed);
    }

    pub(super) async fn printed(&self, event: ProcessEvent) {
        let size = event.weight() as u64;
        self.printed.fetch_add(size, Ordering::Relaxed);
        self.log.push(event).await;
    }

    pub(super) fn has_ended(&self, end: ProcessEnd) {
        let _ = self.end.set(end);
        self.log.end(ProcessEvent::Ended);
        self.has_ended.send_replace(true);
    }
}

/// Somebody who reads what a process prints; slows it when they are slow.
pub struct Attached {
    process: Arc<Process>,
    reader: u64,
    stdout: Decoder,
    stderr: Decoder,
    _lease: Option<Lease>,
    _place: Place,
}

impl Attached {
    pub(super) fn new(
        process: Arc<Process>,
        after: u64,
        lease: Option<Lease>,
        place: Place,
    ) -> Self {
        let (mut stdout, mut stderr) = (Decoder::default(), Decoder::default());
        // A character that began before is still whole.
        match process.log.get(after) {
            Some(ProcessEvent::Stdout(data)) => drop(stdout.push(&data)),
            Some(ProcessEvent::Stderr(data)) => drop(stderr.push(&data)),
            Some(ProcessEvent::Ended) | None => {}
        }
        Self {
            reader: process.log.reader(after),
            process,
            stdout,
            stderr,
            _lease: lease,
            _place: place,
        }
    }

    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// The next item; `None` after the last one, or when it was left behind.
    pub async fn next(&mut self) -> Option<Item<ProcessEvent>> {
        self.process.log.next(self.reader).await
    }

    /// Whether there is an item already.
    pub fn is_up_to_date(&self) -> bool {
        self.process.log.is_read(self.reader)
    }

    /// Of stdout, as text; a torn character comes with its rest.
    pub fn stdout_text(&mut self, data: &[u8]) -> String {
        self.stdout.push(data)
    }

    /// Of stderr, as text; a torn character comes with its rest.
    pub fn stderr_text(&mut self, data: &[u8]) -> String {
        self.stderr.push(data)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.process.log.forget(self.reader);
    }
}
