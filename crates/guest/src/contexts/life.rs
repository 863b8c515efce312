//! The life of one context: its runs one after the other, and its end.
//!
//! ```text
//!           ready             run
//! starting ------> resting <------> running
//!    |                |                |   lost: died, could not be interrupted, broken
//!    |                |                v
//!    '----------------'-------------> gone
//!   cannot start      idle, died, deleted, restarted
//! ```

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    interpreter::{Interpreter, Maker, Spec},
    run::{self, Wish},
    table::Make,
};
use crate::{error::error, life, run::EventSender};

/// Runs that wait; the service sends one after the other, so that these are few.
const MAX_WAITING: usize = 16;
/// How long a run waits for the end of one whose caller has gone.
const TURN_LIMIT: Duration = Duration::from_secs(10);
/// How long the end of a context is waited for.
const END_LIMIT: Duration = Duration::from_secs(10);

/// What a context is asked to do, and who is told that it has begun to.
pub(super) struct Job {
    pub work: Work,
    pub begun: oneshot::Sender<Result<(), ConnectError>>,
}

pub(super) enum Work {
    Run(Arc<Wish>, EventSender),
    /// Only to be there.
    Start,
}

/// A context; it ends when it is told to, not when this is dropped.
pub(super) struct Context {
    pub language: String,
    pub spec: Spec,
    pub idle: Option<Duration>,
    jobs: mpsc::Sender<Job>,
    stop: watch::Sender<bool>,
    gone: watch::Receiver<bool>,
    told: Arc<Mutex<Told>>,
}

/// What is told of a context.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub pid: i32,
    pub busy: bool,
    pub runs: u64,
    pub began: Instant,
    pub used: Instant,
}

/// What came of a wish.
pub(super) enum Taken {
    Begun,
    /// The context was at its end: another one is to be made.
    Gone,
}

impl Context {
    /// Starts it, in a task that tells `at_end` when it is gone.
    pub fn begin(maker: &Maker, make: &Make, at_end: impl FnOnce() + Send + 'static) -> Arc<Self> {
        let (jobs, waiting) = mpsc::channel(MAX_WAITING);
        let (stop, stopping) = watch::channel(false);
        let (ended, gone) = watch::channel(false);
        let now = Instant::now();
        let told = Arc::new(Mutex::new(Told {
            pid: 0,
            busy: false,
            runs: 0,
            began: now,
            used: now,
        }));
        let context = Arc::new(Self {
            language: make.language.clone(),
            spec: make.spec.clone(),
            idle: make.idle,
            jobs,
            stop,
            gone,
            told: Arc::clone(&told),
        });
        let life = Life {
            maker: maker.clone(),
            spec: make.spec.clone(),
            idle: make.idle,
            told,
            stop: stopping,
        };
        let first = make.first.clone();
        tokio::spawn(async move {
            life.live(first, waiting, at_end).await;
            let _ = ended.send(true);
        });
        context
    }

    pub fn told(&self) -> Told {
        *lock(&self.told)
    }

    /// Waits until the work has begun; an error says why it cannot.
    pub async fn take(&self, work: Work) -> Result<Taken, ConnectError> {
        let (begun, has_begun) = oneshot::channel();
        match self.jobs.try_send(Job { work, begun }) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(busy()),
            Err(mpsc::error::TrySendError::Closed(_)) => return Ok(Taken::Gone),
        }
        // A start has a limit of its own.
        let is_starting = self.told().pid == 0;
        match is_starting {
            true => begun_or_gone(has_begun.await),
            false => match life::timeout(TURN_LIMIT, has_begun).await {
                Ok(begun) => begun_or_gone(begun),
                Err(_) => Err(busy()),
            },
        }
    }

    /// Ends it with all that it started.
    pub async fn end(&self) -> Result<(), ConnectError> {
        let _ = self.stop.send(true);
        life::timeout(END_LIMIT, self.gone()).await.map_err(|_| {
            error(
                ErrorCode::SandboxExhausted,
                "the context could not be ended",
            )
        })
    }

    /// Resolves when it is gone.
    pub async fn gone(&self) {
        // An error means that its task is gone, which is the same.
        let _ = self.gone.clone().wait_for(|gone| *gone).await;
    }
}

fn begun_or_gone(
    begun: Result<Result<(), ConnectError>, oneshot::error::RecvError>,
) -> Result<Taken, ConnectError> {
    match begun {
        Ok(Ok(())) => Ok(Taken::Begun),
        Ok(Err(error)) => Err(error),
        Err(_) => Ok(Taken::Gone),
    }
}

fn busy() -> ConnectError {
    error(
        ErrorCode::ContextBusy,
        "the context is busy with a run that is being ended",
    )
}

fn lock(told: &Mutex<Told>) -> MutexGuard<'_, Told> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Life {
    maker: Maker,
    spec: Spec,
    idle: Option<Duration>,
    told: Arc<Mutex<Told>>,
    stop: watch::Receiver<bool>,
}

impl Life {
    async fn live(
        self,
        first: Option<Arc<Wish>>,
        mut jobs: mpsc::Receiver<Job>,
        at_end: impl FnOnce(),
    ) {
        let interpreter = Interpreter::start(&self.maker, &self.spec, first.as_deref()).await;
        drop(first);
        let mut interpreter = match interpreter {
            Ok(interpreter) => interpreter,
            Err(error) => {
                at_end();
                jobs.close();
                if let Some(job) = jobs.recv().await {
                    let _ = job.begun.send(Err(error));
                }
                return;
            }
        };
        lock(&self.told).pid = interpreter.process.pid;
        self.serve(&mut interpreter, &mut jobs).await;
        // First: who comes now gets another one.
        at_end();
        interpreter.end().await;
    }

    /// Until it must end.
    async fn serve(&self, interpreter: &mut Interpreter, jobs: &mut mpsc::Receiver<Job>) {
        let mut stop = self.stop.clone();
        let mut created = true;
        loop {
            let idle = async {
                match self.idle {
                    Some(idle) => life::sleep(idle).await,
                    None => std::future::pending().await,
                }
            };
            let job = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                job = jobs.recv() => job,
                () = interpreter.rest() => return,
                () = idle => return,
            };
            let Some(job) = job else {
                return;
            };
            // Somebody who does not wait any more wants nothing.
            if job.begun.send(Ok(())).is_err() {
                continue;
            }
            let Work::Run(wish, events) = job.work else {
                continue;
            };
            {
                let mut told = lock(&self.told);
                told.busy = true;
                told.runs += 1;
            }
            let kept = run::run(
                &self.maker.guest,
                interpreter,
                &wish,
                created,
                &events,
                &self.stop,
            )
            .await;
            {
                let mut told = lock(&self.told);
                told.busy = false;
                told.used = Instant::now();
            }
            if std::mem::take(&mut created) {
                interpreter.prepare_next();
            }
            if !kept {
                return;
            }
        }
    }
}
