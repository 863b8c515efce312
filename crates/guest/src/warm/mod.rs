//! Python that has started and imported already: runs are forked from it.
//!
//! ```text
//! guest ── starts ──> zygote ── forks ahead ──> a child that waits ── is told ──> the run
//! ```
//!
//! A run is forked only where nobody can tell that from an interpreter that was
//! started for it; where somebody might (choice.rs), it is started as any program.

mod choice;
mod done;
mod first;
mod forked;
mod idle;
mod template;
mod zygote;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

pub(crate) use choice::{Candidate, Preload};
pub(crate) use forked::Forked;
pub(crate) use idle::Idle;
pub(crate) use template::Templates;
use zygote::Zygote;

use crate::{
    life::timeout,
    run::{Extra, Running, Start, Starter},
    state::Guest,
    warm::{choice::Imports, done::Runs},
};

/// How the language table starts Python, unless it was changed.
const USUAL: [&str; 2] = ["python3", "-u"];
/// After the guest's own start, so that whoever waits for it has the processors.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a run waits for one that comes of a template.
const SOON: Duration = Duration::from_millis(300);
/// Before the next try, when a zygote could not be started.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// Interpreters that are kept warm; a language table may have several.
const MAX_ZYGOTES: usize = 4;

/// A clone starts the same programs.
#[derive(Clone)]
pub(crate) struct Warm(Arc<Inner>);

struct Inner {
    guest: Arc<Guest>,
    starter: Starter,
    preload: Preload,
    runs: Runs,
    slots: Mutex<HashMap<Key, Slot>>,
    /// A zygote is ready, or will not be.
    changed: Notify,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// The interpreter and its options.
    command: Vec<String>,
    imports: Imports,
}

enum Slot {
    Starting,
    Ready(Arc<Zygote>),
    Failed(Instant),
}

impl Warm {
    pub fn start(guest: Arc<Guest>, starter: Starter, preload: Preload) -> std::io::Result<Self> {
        let warm = Self(Arc::new(Inner {
            runs: Runs::listen()?,
            guest,
            starter,
            preload,
            slots: Mutex::default(),
            changed: Notify::new(),
        }));
        // Of a template it is there when it is needed.
        if !warm.0.guest.templates.is_promised() {
            let early = warm.clone();
            tokio::spawn(async move {
                tokio::time::sleep(PAUSE).await;
                early.prepare(&Key {
                    command: USUAL.map(str::to_owned).into(),
                    imports: Imports::Few,
                });
            });
        }
        Ok(warm)
    }

    /// What could be forked of a run of `argv`; `script` is the argument with the code.
    pub fn candidate(&self, argv: &[String], script: &str, source: &[u8]) -> Option<Candidate> {
        self.0.preload.candidate(argv, script, source)
    }

    /// The same of an interpreter that a context keeps; its first code is known, and
    /// what is set for that.
    pub fn context(
        &self,
        argv: &[String],
        script: &str,
        first: (&str, &BTreeMap<String, String>),
        extra: &Extra,
    ) -> Option<Candidate> {
        self.0.preload.context(argv, script, first, extra)
    }

    /// Forks the run, if there is something to fork it from that suits it.
    pub async fn fork(
        &self,
        candidate: &Candidate,
        program: &Start,
        extra: &Extra,
        display: &str,
    ) -> Option<Running> {
        for imports in candidate.imports.and_fewer() {
            let key = Key {
                command: candidate.command.clone(),
                imports: *imports,
            };
            let Some(zygote) = self.zygote_soon(&key).await else {
                continue;
            };
            if !choice::suits(&zygote, candidate, program) {
                continue;
            }
            let run = zygote::Run {
                candidate,
                program,
                extra,
                display,
                limits: self.0.starter.limits(extra),
            };
            if let Some(running) = self.0.runs.begin(&zygote, run).await {
                return Some(running);
            }
        }
        None
    }

    /// The run is over: what its like would be forked from is started now, when
    /// nobody waits.
    pub fn prepare_for(&self, candidate: &Candidate) {
        let imports = match candidate.is_context {
            // There may never be another one, and all imports take memory.
            true => Imports::Few.and_fewer(),
            false => candidate.imports.and_fewer(),
        };
        for imports in imports {
            self.prepare(&Key {
                command: candidate.command.clone(),
                imports: *imports,
            });
        }
    }

    /// Memory of all zygotes and of what they have forked ahead.
    pub async fn memory_bytes(&self) -> u64 {
        let zygotes: Vec<Arc<Zygote>> = {
            let slots = self.slots();
            let ready = slots.values().filter_map(|slot| match slot {
                Slot::Ready(zygote) => Some(Arc::clone(zygote)),
                _ => None,
            });
            ready.collect()
        };
        let mut bytes = 0;
        for zygote in zygotes {
            bytes += zygote.memory_bytes().await;
        }
        bytes
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Key, Slot>> {
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that lives, and that is what would be started now.
    fn zygote(&self, key: &Key) -> Option<Arc<Zygote>> {
        let mut slots = self.slots();
        let zygote = match slots.get(key) {
            Some(Slot::Ready(zygote)) => Arc::clone(zygote),
            _ => return None,
        };
        if zygote.is_current() {
            return Some(zygote);
        }
        slots.remove(key);
        zygote.let_go();
        None
    }

    /// The same; where there is a template, one comes of it in no time.
    async fn zygote_soon(&self, key: &Key) -> Option<Arc<Zygote>> {
        if !self.0.guest.templates.is_promised() {
            return self.zygote(key);
        }
        let soon = async {
            loop {
                let mut changed = std::pin::pin!(self.0.changed.notified());
                changed.as_mut().enable();
                if let Some(zygote) = self.zygote(key) {
                    return Some(zygote);
                }
                self.prepare(key);
                if !matches!(self.slots().get(key), Some(Slot::Starting)) {
                    return None;
                }
                changed.await;
            }
        };
        timeout(SOON, soon).await.ok()?
    }

    fn prepare(&self, key: &Key) {
        if self.0.guest.disk.is_full() {
            return;
        }
        let mut slots = self.slots();
        match slots.get(key) {
            Some(Slot::Starting | Slot::Ready(_)) => return,
            Some(Slot::Failed(at)) if at.elapsed() < AFTER_FAILURE => return,
            None if slots.len() >= MAX_ZYGOTES => return,
            _ => slots.insert(key.clone(), Slot::Starting),
        };
        drop(slots);
        let (warm, key) = (self.clone(), key.clone());
        tokio::spawn(async move {
            let modules = (key.imports, warm.0.preload.modules(key.imports));
            let started = Zygote::start(
                &warm.0.guest,
                &warm.0.starter,
                &warm.0.runs,
                &key.command,
                modules,
            );
            let slot = match started.await {
                Ok(zygote) => Slot::Ready(zygote),
                Err(_) => Slot::Failed(Instant::now()),
            };
            warm.slots().insert(key, slot);
            warm.0.changed.notify_waiters();
        });
    }
}
