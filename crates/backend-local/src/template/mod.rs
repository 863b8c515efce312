//! One warm Python for all sandboxes.
//!
//! ```text
//! service ── starts ──> bubblewrap ──> template: root, that may only change users
//!    │                                    └── forks ahead ──> joiner (join.py)
//!    └── order: the sandbox's pidfd, its cgroups, a socket ────────┘└──> zygote, inside
//! ```
//!
//! A template is started when it is first needed, and again when it has ended. It is
//! for a service that is root: without root a mount namespace of the template's own
//! needs a user namespace of its own, from where no other can be entered.

mod door;
mod inspect;
mod order;
mod running;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use sandbox_core::chain;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

pub(crate) use door::Door;
pub(crate) use order::Target;
use running::Template;

use crate::{
    arguments::Arguments,
    config::PythonTemplate,
    error::{Failure, Result},
    rootfs::Rootfs,
    seccomp::Filters,
    spawn::Spawner,
};

/// How long the end of all templates is waited for.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// Before the next try, when a template could not be started or has ended; doubled
/// each time that it happens soon again.
const PAUSE: Duration = Duration::from_secs(1);
const MAX_DOUBLED: u32 = 6;
/// A template that lives longer has not failed.
const LONG: Duration = Duration::from_secs(60);
/// How long a sandbox waits for a template that is being started; longer, and it has
/// an interpreter of its own sooner.
const START_PATIENCE: Duration = Duration::from_secs(3);

/// The templates of this service, by kind.
pub(crate) struct Templates {
    setup: Setup,
    kinds: BTreeMap<u8, Kind>,
    /// No template is to be any more.
    closed: watch::Sender<bool>,
    /// Templates that are, or are being started.
    kept: watch::Sender<usize>,
    me: Weak<Self>,
}

/// Counts a template for as long as it is kept.
struct Kept(watch::Sender<usize>);

impl Kept {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|kept| *kept += 1);
        Self(count.clone())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.send_modify(|kept| *kept -= 1);
    }
}

/// What every template is started with.
struct Setup {
    bwrap: PathBuf,
    root: Arguments,
    python: PythonTemplate,
    allow: Vec<u8>,
    refuse: Vec<u8>,
    spawner: Arc<Spawner>,
}

struct Kind {
    argument: String,
    state: Mutex<State>,
    /// Templates in a row that did not live long.
    failures: AtomicU32,
    /// Told when a start has come to its end.
    started: watch::Sender<()>,
}

#[derive(Default)]
enum State {
    #[default]
    Absent,
    Starting,
    Ready(Arc<Template>),
    /// Not to be started again before then.
    Failed(Instant),
}

impl Kind {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long to wait before the next try.
    fn fails(&self) -> Duration {
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        let pause = PAUSE * 2_u32.pow(before.min(MAX_DOUBLED));
        *self.state() = State::Failed(Instant::now() + pause);
        pause
    }

    fn ready(&self) -> Option<Arc<Template>> {
        match &*self.state() {
            State::Ready(template) => Some(Arc::clone(template)),
            _ => None,
        }
    }
}

impl Templates {
    pub fn new(
        bwrap: PathBuf,
        rootfs: &Rootfs,
        python: PythonTemplate,
        filters: &Filters,
        spawner: Arc<Spawner>,
    ) -> Arc<Self> {
        let kind = |argument: &String| Kind {
            argument: argument.clone(),
            state: Mutex::default(),
            failures: AtomicU32::new(0),
            started: watch::Sender::new(()),
        };
        let kinds = python.kinds.iter();
        let kinds = kinds.map(|(number, argument)| (*number, kind(argument)));
        Arc::new_cyclic(|me| Self {
            kinds: kinds.collect(),
            setup: Setup {
                bwrap,
                root: running::root(rootfs),
                allow: filters.allow.clone(),
                refuse: filters.refuse.clone(),
                spawner,
                python: python.clone(),
            },
            closed: watch::Sender::new(false),
            kept: watch::Sender::new(0),
            me: me.clone(),
        })
    }

    /// Ends all templates, for good; what was forked from them goes on.
    pub async fn close(&self) {
        self.closed.send_replace(true);
        let mut kept = self.kept.subscribe();
        let _ = timeout(CLOSE_LIMIT, kept.wait_for(|kept| *kept == 0)).await;
    }

    /// Starts those that are not there, in the background.
    pub fn warm(&self) {
        for kind in self.kinds.keys() {
            self.start(*kind);
        }
    }

    /// Forks the template of this kind into a sandbox, where it serves on `serve`.
    pub async fn fork(&self, kind: u8, target: &Target, serve: OwnedFd) -> Result<()> {
        self.ready(kind).await?.fork(target, serve).await
    }

    async fn ready(&self, number: u8) -> Result<Arc<Template>> {
        let kind = self
            .kinds
            .get(&number)
            .ok_or_else(|| Failure::new("there is no such template"))?;
        let mut started = kind.started.subscribe();
        if let Some(template) = kind.ready() {
            return Ok(template);
        }
        if self.start(number) {
            let _ = timeout(START_PATIENCE, started.changed()).await;
        }
        kind.ready()
            .ok_or_else(|| Failure::new("the template is not ready"))
    }

    /// Starts the template unless it is there or has just failed; whether one is
    /// being started.
    fn start(&self, number: u8) -> bool {
        let (Some(kind), Some(templates)) = (self.kinds.get(&number), self.me.upgrade()) else {
            return false;
        };
        let mut state = kind.state();
        match &*state {
            _ if *self.closed.borrow() => return false,
            State::Starting => return true,
            State::Ready(_) => return false,
            State::Failed(until) if Instant::now() < *until => return false,
            State::Absent | State::Failed(_) => *state = State::Starting,
        }
        drop(state);
        let kept = Kept::new(&self.kept);
        // Ends with the template, which ends at the latest with `templates`.
        tokio::spawn(Self::keep(templates, number, kept));
        true
    }

    /// Starts a template, and sees to it until it ends.
    async fn keep(templates: Arc<Self>, number: u8, kept: Kept) {
        let Some(kind) = templates.kinds.get(&number) else {
            return;
        };
        let started = Template::start(&templates.setup, &kind.argument).await;
        let (template, mut life) = match started {
            Ok(started) => started,
            Err(failure) => {
                // The next tries fail as this one did, most likely.
                if kind.failures.load(Ordering::Relaxed) == 0 {
                    tracing::warn!(
                        "sandboxes start Python by themselves, for the template did not start: {}",
                        chain(&failure)
                    );
                }
                kind.fails();
                kind.started.send_replace(());
                return;
            }
        };
        tracing::info!("a Python template is ready: process {}", template.pid);
        *kind.state() = State::Ready(template);
        kind.started.send_replace(());
        let began = Instant::now();
        let me = templates.me.clone();
        let mut closed = templates.closed.subscribe();
        // Not held here, for the template must end with its last owner.
        drop(templates);
        let is_closed = tokio::select! {
            () = life.ended() => false,
            closed = closed.wait_for(|closed| *closed) => closed.is_ok(),
        };
        if is_closed {
            life.end().await;
            return;
        }
        drop(kept);
        let Some(pause) = me.upgrade().and_then(|templates| {
            let kind = templates.kinds.get(&number)?;
            if began.elapsed() > LONG {
                kind.failures.store(0, Ordering::Relaxed);
            }
            Some(kind.fails())
        }) else {
            return;
        };
        tracing::warn!("a Python template has ended; what was forked from it goes on");
        sleep(pause).await;
        if let Some(templates) = me.upgrade() {
            templates.start(number);
        }
    }
}
