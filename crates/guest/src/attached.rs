//! The connection of a container: one pipe in and one out, which outlive the
//! service that is attached to them.
//!
//! ```text
//! serving ── the signal ──> handing over ── the word of another service ──> serving
//!    └─ the end of input, or nothing heard for long ─> the guest ends ─┘
//! ```
//!
//! What a service that was killed has left in the pipes is half a message. So the
//! next one sends a signal, waits for a word that nothing else follows, and begins
//! with a word of its own, which is told back to it.

use std::{
    io,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use sandbox_wire::takeover::{MAX_WORD, RESUME, RESUMED, SIGNAL, WAITING, WORD_END};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, Join, ReadBuf},
    net::unix::pipe,
    signal::unix::{SignalKind, signal},
};

pub(crate) struct Attached {
    input: Heard<pipe::Receiver>,
    output: pipe::Sender,
    /// Without a word from the service for so long, there is none any more.
    alone: Option<Duration>,
}

pub(crate) type Connection<'a> = Join<&'a mut Heard<pipe::Receiver>, &'a mut pipe::Sender>;

impl Attached {
    pub fn new(input: pipe::Receiver, output: pipe::Sender, alone: Option<Duration>) -> Self {
        Self {
            input: Heard::new(input),
            output,
            alone,
        }
    }

    /// Serves one service after the other.
    pub async fn serve(
        mut self,
        serve: impl AsyncFn(Connection<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut takeover = signal(SignalKind::from_raw(SIGNAL))?;
        let clock = self.input.clock();
        loop {
            tokio::select! {
                ended = serve(tokio::io::join(&mut self.input, &mut self.output)) => return ended,
                _ = takeover.recv() => {}
                () = clock.silent_for(self.alone) => return Err(nobody()),
            }
            tokio::select! {
                handed_over = hand_over(&mut self.input, &mut self.output) => handed_over?,
                () = clock.silent_for(self.alone) => return Err(nobody()),
            }
        }
    }
}

pub(crate) fn nobody() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no service is attached any more")
}

/// Reads past what another service has left, up to this one's word.
async fn hand_over(
    input: &mut (impl AsyncRead + Unpin),
    output: &mut pipe::Sender,
) -> io::Result<()> {
    output.write_all(WAITING).await?;
    let mut seen = Vec::new();
    loop {
        seen.push(input.read_u8().await?);
        if let Some(word) = seen.strip_prefix(RESUME)
            && seen.ends_with(WORD_END)
        {
            let answer = [RESUMED, word].concat();
            return output.write_all(&answer).await;
        }
        let may_go_on = seen.len() <= RESUME.len() + MAX_WORD
            && (RESUME.starts_with(&seen) || seen.starts_with(RESUME));
        if !may_go_on {
            // The prefix has no beginning of itself within it.
            let last = seen.last().copied();
            seen.clear();
            seen.extend(last.filter(|byte| *byte == RESUME[0]));
        }
    }
}

/// Input that knows when something last came.
pub(crate) struct Heard<R> {
    input: R,
    clock: std::rc::Rc<Clock>,
}

pub(crate) struct Clock {
    start: Instant,
    heard_ms: AtomicU64,
}

impl<R> Heard<R> {
    pub fn new(input: R) -> Self {
        Self {
            input,
            clock: std::rc::Rc::new(Clock {
                start: Instant::now(),
                heard_ms: AtomicU64::new(0),
            }),
        }
    }

    pub fn clock(&self) -> std::rc::Rc<Clock> {
        std::rc::Rc::clone(&self.clock)
    }
}

impl Clock {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub async fn silent_for(&self, limit: Option<Duration>) {
        let Some(limit) = limit else {
            return std::future::pending().await;
        };
        loop {
            let heard = Duration::from_millis(self.heard_ms.load(Ordering::Relaxed));
            let left = limit.saturating_sub(self.start.elapsed().saturating_sub(heard));
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Heard<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.input).poll_read(context, buffer);
        if polled.is_ready() {
            let now = self.clock.now_ms();
            self.clock.heard_ms.store(now, Ordering::Relaxed);
        }
        polled
    }
}
