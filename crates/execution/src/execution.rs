//! One run: what is known of it, and those who wait for it.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use guest_client::{Collected, RunEnd, RunEvent};
use sandbox_core::{
    Artifact, ContextName, Error, ExecutionId, Phase as Step, Result, SessionId, Stream, TenantId,
    Termination,
};
use sandbox_session::{RunPlace, RunReport};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    event::Event,
    log::{Item, Log},
    text::Decoder,
};

/// 128 + SIGKILL.
const KILLED: i32 = 137;
/// 128 + SIGINT.
const INTERRUPTED: i32 = 130;
const SIGKILL: u32 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Waiting,
    Started,
    Ended,
}

/// How a run ended.
#[derive(Debug)]
pub struct Finished {
    /// An error says why there was no run, or why its end is not known.
    pub result: Result<RunReport>,
    /// What `display()` was given: JSON objects of MIME type to text.
    pub displayed: Vec<String>,
    /// Which of these is the value of the last expression of code in a context.
    pub main_result: Option<usize>,
}

/// What a run has come to so far.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub stdout: String,
    pub stderr: String,
    pub truncated: bool,
    pub artifacts: Vec<Artifact>,
    pub displayed: Vec<String>,
    pub running: Duration,
    /// Reading the events after this one continues it.
    pub last_event: u64,
}

/// A run, from the wish for it until nobody asks for its outcome any more.
pub struct Execution {
    id: ExecutionId,
    tenant: TenantId,
    session: Option<SessionId>,
    language: String,
    runtime: String,
    context: Option<ContextName>,
    missing: String,
    request_sha256: String,
    log: Log<Event>,
    phase: watch::Sender<Phase>,
    progress: Mutex<Progress>,
    pub(crate) cancel: CancellationToken,
    attached: AtomicUsize,
    detached: AtomicBool,
}

struct Progress {
    collected: Option<Collected>,
    displayed: Vec<String>,
    main_result: Option<usize>,
    stdout: Decoder,
    stderr: Decoder,
    place: Option<RunPlace>,
    began: Instant,
    finished: Option<Arc<Finished>>,
}

/// Somebody who waits for a run. When the last one goes, so does the run,
/// unless it was asked to go on.
pub struct Attachment(Arc<Execution>);

/// Reads the events of a run; it is attached to it.
pub struct Reader {
    attachment: Attachment,
    reader: u64,
}

pub(crate) struct Named {
    pub id: ExecutionId,
    pub tenant: TenantId,
    pub session: Option<SessionId>,
    pub language: String,
    pub runtime: String,
    pub context: Option<ContextName>,
    pub missing: String,
    pub request_sha256: String,
    pub detach: bool,
}

impl Execution {
    pub(crate) fn new(named: Named, output_limit: u64, ring_bytes: usize) -> Self {
        Self {
            id: named.id,
            tenant: named.tenant,
            session: named.session,
            language: named.language,
            runtime: named.runtime,
            context: named.context,
            missing: named.missing,
            request_sha256: named.request_sha256,
            log: Log::new(ring_bytes),
            phase: watch::Sender::new(Phase::Waiting),
            progress: Mutex::new(Progress {
                collected: Some(Collected::within(output_limit)),
                displayed: Vec::new(),
                main_result: None,
                stdout: Decoder::default(),
                stderr: Decoder::default(),
                place: None,
                began: Instant::now(),
                finished: None,
            }),
            cancel: CancellationToken::new(),
            attached: AtomicUsize::new(0),
            detached: AtomicBool::new(named.detach),
        }
    }

    pub fn id(&self) -> &ExecutionId {
        &self.id
    }

    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    pub fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    pub fn language(&self) -> &str {
        &self.language
    }

    /// The program that runs the code.
    pub fn runtime(&self) -> &str {
        &self.runtime
    }

    /// The interpreter that stays alive, of those that its session has.
    pub fn context(&self) -> Option<&ContextName> {
        self.context.as_ref()
    }

    /// What to say where that program is not installed.
    pub fn missing(&self) -> &str {
        &self.missing
    }

    pub(crate) fn request_sha256(&self) -> &str {
        &self.request_sha256
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the program has started, or the run has ended without.
    pub async fn started(&self) -> Result<()> {
        let mut phase = self.phase.subscribe();
        // The sender is ours: it cannot be gone.
        let _ = phase.wait_for(|phase| *phase >= Phase::Started).await;
        let progress = self.progress();
        match (&progress.place, progress.finished.as_deref()) {
            (None, Some(Finished { result: Err(e), .. })) => Err(e.clone()),
            _ => Ok(()),
        }
    }

    pub(crate) fn has_started(&self) -> bool {
        *self.phase.borrow() >= Phase::Started
    }

    /// Waits for the end.
    pub async fn finished(&self) -> Arc<Finished> {
        let mut phase = self.phase.subscribe();
        loop {
            let _ = phase.wait_for(|phase| *phase == Phase::Ended).await;
            if let Some(finished) = self.outcome() {
                return finished;
            }
        }
    }

    /// How it ended, if it has.
    pub fn outcome(&self) -> Option<Arc<Finished>> {
        self.progress().finished.clone()
    }

    /// What it has come to so far.
    pub fn snapshot(&self) -> Snapshot {
        let last_event = self.log.last_id();
        let progress = self.progress();
        let (stdout, stderr, truncated, artifacts) = match (
            progress.collected.as_ref(),
            progress.finished.as_deref().map(|done| &done.result),
        ) {
            (Some(collected), _) => {
                let (stdout, stderr) = collected.output();
                (
                    stdout.to_text(),
                    stderr.to_text(),
                    stdout.truncated() || stderr.truncated(),
                    collected.artifacts().to_vec(),
                )
            }
            (None, Some(Ok(report))) => (
                report.outcome.stdout.to_text(),
                report.outcome.stderr.to_text(),
                report.outcome.stdout.truncated() || report.outcome.stderr.truncated(),
                report.outcome.artifacts.clone(),
            ),
            _ => Default::default(),
        };
        Snapshot {
            stdout,
            stderr,
            truncated,
            artifacts,
            displayed: progress.displayed.clone(),
            running: progress.began.elapsed(),
            last_event,
        }
    }

    /// Ends it; nothing if it has ended.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// It goes on when nobody waits for it any more.
    pub fn detach(&self) {
        self.detached.store(true, Ordering::SeqCst);
    }

    pub fn attach(self: &Arc<Self>) -> Attachment {
        self.attached.fetch_add(1, Ordering::SeqCst);
        Attachment(Arc::clone(self))
    }

    /// About what it takes of the service's memory.
    pub(crate) fn bytes(&self) -> usize {
        let finished = self.outcome();
        let kept = finished
            .as_deref()
            .and_then(|finished| finished.result.as_ref().ok())
            .map_or(0, |report| {
                report.outcome.stdout.kept_bytes() + report.outcome.stderr.kept_bytes()
            });
        self.log.bytes() + kept + 1024
    }

    pub(crate) async fn begin(&self, place: RunPlace) {
        {
            let mut progress = self.progress();
            progress.place = Some(place);
            progress.began = Instant::now();
        }
        self.log.push(Event::Started).await;
        self.phase.send_replace(Phase::Started);
    }

    /// Tells the readers what happened; waits for slow ones.
    pub(crate) async fn happened(&self, event: RunEvent) {
        let told = {
            let mut progress = self.progress();
            if let Some(collected) = progress.collected.as_mut() {
                collected.add(&event);
            }
            match event {
                RunEvent::Output {
                    stream,
                    data,
                    omitted_before,
                } => {
                    let decoder = match stream {
                        Stream::Stdout => &mut progress.stdout,
                        Stream::Stderr => &mut progress.stderr,
                    };
                    let mut text = String::new();
                    if omitted_before > 0 {
                        text = decoder.finish();
                        text += &format!("\n[... {omitted_before} bytes omitted ...]\n");
                    }
                    text += &decoder.push(&data);
                    (!text.is_empty()).then_some(Event::Output { stream, text })
                }
                RunEvent::Artifact(artifact) => Some(Event::Artifact(artifact)),
                RunEvent::Raised(raised) => Some(Event::Raised(raised)),
                RunEvent::Result(bundle) => {
                    progress.main_result = Some(progress.displayed.len());
                    progress.displayed.push(bundle.clone());
                    Some(Event::Result(bundle))
                }
                RunEvent::Display(bundle) => {
                    progress.displayed.push(bundle.clone());
                    Some(Event::Display(bundle))
                }
                RunEvent::Ended(_) => None,
            }
        };
        if let Some(event) = told {
            self.log.push(event).await;
        }
    }

    /// The program's own end, or one that was made for it.
    pub(crate) fn report(&self, end: RunEnd) -> Option<RunReport> {
        let mut progress = self.progress();
        let place = progress.place.clone()?;
        let outcome = progress.collected.take()?.ended(end);
        Some(RunReport { outcome, place })
    }

    /// The end of a program that was killed with its guest's stream.
    pub(crate) fn cut_short(&self, termination: Termination) -> Option<RunReport> {
        let ran = {
            let progress = self.progress();
            progress.place.as_ref()?;
            progress.began.elapsed()
        };
        // Code in a context is interrupted, and killed only when that does not help.
        let is_interrupted = self.context.is_some() && termination == Termination::Cancelled;
        let (exit_code, signal) = match is_interrupted {
            true => (INTERRUPTED, None),
            false => (KILLED, Some(SIGKILL)),
        };
        self.report(RunEnd {
            exit_code,
            signal,
            termination,
            duration: ran,
            cpu: Duration::ZERO,
            peak_memory_bytes: 0,
            stdout_bytes: 0,
            stderr_bytes: 0,
            stdout_file: None,
            stderr_file: None,
            artifacts_omitted: 0,
            warm: false,
            phase: Step::Run,
            // The stream that would have told is gone; so is its sandbox, or the code goes
            // on to be interrupted.
            context: None,
        })
    }

    pub(crate) async fn finish(&self, result: Result<RunReport>) {
        let (stdout, stderr) = {
            let mut progress = self.progress();
            (progress.stdout.finish(), progress.stderr.finish())
        };
        for (stream, text) in [(Stream::Stdout, stdout), (Stream::Stderr, stderr)] {
            if !text.is_empty() {
                self.log.push(Event::Output { stream, text }).await;
            }
        }
        {
            let mut progress = self.progress();
            progress.collected = None;
            progress.finished = Some(Arc::new(Finished {
                result,
                displayed: progress.displayed.clone(),
                main_result: progress.main_result,
            }));
        }
        self.log.end(Event::Ended);
        self.phase.send_replace(Phase::Ended);
    }
}

/// A run that nobody drives any more has an end for those who wait.
pub(crate) fn abandoned() -> Error {
    Error::internal("the task of a run ended before the run did")
}

impl Attachment {
    /// Reads the events after this one.
    pub fn events(self, after: u64) -> Reader {
        let reader = self.0.log.reader(after);
        Reader {
            attachment: self,
            reader,
        }
    }
}

impl std::ops::Deref for Attachment {
    type Target = Arc<Execution>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let last = self.0.attached.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && !self.0.detached.load(Ordering::SeqCst) {
            self.0.cancel();
        }
    }
}

impl Reader {
    /// The next item; `None` after the last one, or when it was left behind.
    pub async fn next(&mut self) -> Option<Item<Event>> {
        self.attachment.0.log.next(self.reader).await
    }

    pub fn execution(&self) -> &Arc<Execution> {
        &self.attachment.0
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.attachment.0.log.forget(self.reader);
    }
}
