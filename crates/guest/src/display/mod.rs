//! What Python programs display while they run: figures, tables and all that
//! `display()` is given.
//!
//! ```text
//! program --> sitecustomize.py --> .sandbox/runs/<run>/*.json --> guest --> events
//! ```
//!
//! The program can write to that folder as well as its interpreter can: what is
//! found there is read as anything else that a stranger sends.

mod folder;
mod item;
pub(crate) mod modules;
mod watch;

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use folder::Folder;
use item::Shown;
pub(crate) use modules::Modules;
use sandbox_wire::sandbox::v1::RunResponse;
use tokio::sync;
use watch::Watch;
pub(crate) use watch::Watcher;

use crate::{artifacts::Keeper, run::EventSender, state::Guest};

/// Most items of one run.
const MAX_ITEMS: usize = 2000;
/// How often it is looked what is new; a program may make names without end.
const MAX_LOOKS: usize = 20_000;
/// For what was displayed just before the end.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Where one run displays.
pub(crate) struct Display {
    folder: Arc<Folder>,
    watch: Watch,
}

struct State {
    guest: Arc<Guest>,
    folder: Arc<Folder>,
    events: EventSender,
    keeper: Keeper,
    items: usize,
}

impl Display {
    pub fn prepare(guest: &Guest) -> io::Result<Self> {
        let folder = Folder::make(&guest.workspace)?;
        let watch = folder.watch(&guest.displays)?;
        Ok(Self {
            folder: Arc::new(folder),
            watch,
        })
    }

    /// Where items are put.
    pub fn folder(&self) -> String {
        self.folder.path().to_string_lossy().into_owned()
    }

    /// Tells an interpreter that is started; it keeps this from the program.
    pub async fn add_to(&self, env: &mut BTreeMap<String, String>, guest: &Arc<Guest>) {
        let guest = Arc::clone(guest);
        let modules = tokio::task::spawn_blocking(move || guest.python_modules.path()).await;
        // A run that cannot display is a run all the same.
        if let Ok(Ok(modules)) = modules {
            tell(env, &modules, &self.folder());
        }
    }

    /// Sends what is displayed until the program has ended.
    pub async fn follow(
        mut self,
        guest: Arc<Guest>,
        keeper: Keeper,
        events: EventSender,
        mut ended: sync::watch::Receiver<bool>,
    ) -> Keeper {
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => {
                if Arc::get_mut(&mut self.folder).is_some_and(Folder::remove_empty) {
                    return keeper;
                }
            }
            () = self.watch.changed() => self.watch.again(),
        }
        let keeper = self.follow_on(guest, keeper, events, ended).await;
        let folder = self.folder;
        // Emptied by a thread that may wait for a disk.
        let _ = tokio::task::spawn_blocking(move || drop(folder)).await;
        keeper
    }

    /// The same for a program that goes on after this run.
    pub async fn follow_on(
        &mut self,
        guest: Arc<Guest>,
        keeper: Keeper,
        events: EventSender,
        mut ended: sync::watch::Receiver<bool>,
    ) -> Keeper {
        let mut state = State {
            guest,
            folder: Arc::clone(&self.folder),
            events,
            keeper,
            items: 0,
        };
        for _ in 0..MAX_LOOKS {
            tokio::select! {
                biased;
                _ = ended.wait_for(|ended| *ended) => break,
                () = self.watch.changed() => {}
            }
            state.look(None).await;
        }
        // Of no use when that many were seen; it ends with the program.
        let _ = ended.wait_for(|ended| *ended).await;
        state.look(Some(Instant::now() + TIME_LIMIT)).await;
        state.keeper
    }
}

/// Without a folder nothing is kept of what is displayed.
pub(crate) fn tell(env: &mut BTreeMap<String, String>, modules: &Path, folder: &str) {
    let mut path = modules.to_string_lossy().into_owned();
    if let Some(given) = env.get("PYTHONPATH").filter(|given| !given.is_empty()) {
        path.push(':');
        path.push_str(given);
    }
    env.insert("PYTHONPATH".into(), path);
    env.insert("SANDBOX_DISPLAY".into(), folder.into());
}

impl State {
    /// Sends what is there; what came first goes first.
    async fn look(&mut self, until: Option<Instant>) {
        let in_time = move || until.is_none_or(|until| Instant::now() < until);
        while in_time() && !self.events.is_closed() {
            let folder = Arc::clone(&self.folder);
            let names = tokio::task::spawn_blocking(move || folder.items()).await;
            let names = names.unwrap_or_default();
            let mut taken = 0;
            for name in names {
                if !in_time() {
                    return;
                }
                if self.items == MAX_ITEMS {
                    self.keeper.omit(1);
                    return;
                }
                self.items += 1;
                if self.take(name, until).await {
                    taken += 1;
                }
            }
            // What cannot be taken away would be found for ever.
            if taken == 0 {
                return;
            }
        }
    }

    /// Sends one item; false when it cannot be taken from the folder.
    async fn take(&mut self, name: String, until: Option<Instant>) -> bool {
        let (guest, folder) = (Arc::clone(&self.guest), Arc::clone(&self.folder));
        let events = self.events.clone();
        let mut keeper = std::mem::replace(&mut self.keeper, Keeper::new(None));
        let work = tokio::task::spawn_blocking(move || {
            let go_on = || !events.is_closed() && until.is_none_or(|until| Instant::now() < until);
            let (item, removed) = folder.take(&name);
            let shown = item::show(&item, &guest, &folder, &mut keeper, &go_on);
            (keeper, shown, removed)
        });
        let Ok((keeper, shown, removed)) = work.await else {
            return false;
        };
        self.keeper = keeper;
        for shown in shown {
            let event = match shown {
                Shown::Artifact(artifact) => artifact.into(),
                Shown::Display(display) => display.into(),
            };
            let response = RunResponse {
                event,
                ..Default::default()
            };
            let _ = self.events.send(Ok(response)).await;
        }
        removed
    }
}
