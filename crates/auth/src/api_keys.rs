//! Whose an API key is: looked up in the store, and remembered for a moment.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sandbox_core::{Error, ErrorCode, Result};
use sandbox_store::{KeyRecord, KeyStore};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tracing::debug;

use crate::{ApiKey, Identity, unauthorized};

/// How long an answer of the store is used again. With [`LOOKUP_LIMIT`], a
/// revoked key is refused within five seconds.
const FRESH: Duration = Duration::from_secs(3);
/// For one answer of the store, the wait for a turn included.
const LOOKUP_LIMIT: Duration = Duration::from_secs(2);
/// How long a key that was good is still taken while the store does not answer:
/// a restart of the database is no outage.
const STALE: Duration = Duration::from_secs(30);
/// Between two questions to a store that does not answer.
const STORE_PAUSE: Duration = Duration::from_secs(1);
const MAX_KNOWN: usize = 4096;
const MAX_UNKNOWN: usize = 4096;
/// Questions to the store at a time, about keys that exist and about ids that
/// somebody may invent: those wait for each other, not for these.
const KNOWN_LOOKUPS: usize = 4;
const UNKNOWN_LOOKUPS: usize = 1;

/// Checks API keys.
pub struct ApiKeys {
    store: Arc<dyn KeyStore>,
    /// Not held across an await.
    memory: Mutex<Memory>,
    known_turn: Semaphore,
    unknown_turn: Semaphore,
}

/// Apart, so that invented ids cannot push out the keys in use.
#[derive(Default)]
struct Memory {
    known: HashMap<String, Known>,
    unknown: HashMap<String, Instant>,
}

#[derive(Clone)]
struct Known {
    record: Arc<KeyRecord>,
    read_at: Instant,
    fresh_until: Instant,
}

enum Remembered {
    Key(Arc<KeyRecord>),
    NoKey,
    /// There was such a key some time ago.
    Stale(Known),
    Nothing,
}

impl ApiKeys {
    pub fn new(store: Arc<dyn KeyStore>) -> Self {
        Self {
            store,
            memory: Mutex::default(),
            known_turn: Semaphore::new(KNOWN_LOOKUPS),
            unknown_turn: Semaphore::new(UNKNOWN_LOOKUPS),
        }
    }

    pub(crate) async fn identify(&self, text: &str) -> Result<Identity> {
        // One answer for each way to be wrong: which ids exist is nobody's business.
        let refused = || unauthorized("the API key is not valid");
        let key = ApiKey::parse(text).ok_or_else(refused)?;
        let record = self.record(key.id()).await?.ok_or_else(refused)?;
        if !key.has_secret(&record.secret_sha256) {
            return Err(refused());
        }
        if record.revoked_at.is_some() {
            return Err(unauthorized("the API key was revoked"));
        }
        Ok(Identity::of_key(
            &record.id,
            record.tenant.clone(),
            record.admin,
        ))
    }

    async fn record(&self, id: &str) -> Result<Option<Arc<KeyRecord>>> {
        let stale = match self.memory().recall(id) {
            Remembered::Key(record) => return Ok(Some(record)),
            Remembered::NoKey => return Ok(None),
            Remembered::Stale(known) => Some(known),
            Remembered::Nothing => None,
        };
        let asked_at = Instant::now();
        match timeout(LOOKUP_LIMIT, self.ask(id, stale.is_some())).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => self.unanswered(id, stale, asked_at, Some(error)),
            Err(_) => self.unanswered(id, stale, asked_at, None),
        }
    }

    async fn ask(&self, id: &str, known: bool) -> Result<Option<Arc<KeyRecord>>> {
        let turn = if known {
            &self.known_turn
        } else {
            &self.unknown_turn
        };
        let _turn = turn.acquire().await.map_err(Error::internal)?;
        // Whoever waited for the same key has its answer now.
        match self.memory().recall(id) {
            Remembered::Key(record) => return Ok(Some(record)),
            Remembered::NoKey => return Ok(None),
            Remembered::Stale(_) | Remembered::Nothing => {}
        }
        // Before the question: what changes while it is on its way counts as not seen.
        let read_at = Instant::now();
        let found = self.store.find_key(id).await?.map(Arc::new);
        self.memory().keep(id, found.clone(), read_at);
        Ok(found)
    }

    fn unanswered(
        &self,
        id: &str,
        stale: Option<Known>,
        asked_at: Instant,
        error: Option<Error>,
    ) -> Result<Option<Arc<KeyRecord>>> {
        match stale {
            Some(known) if asked_at.duration_since(known.read_at) < STALE => {
                debug!(
                    key.id = id,
                    "the store does not answer: an API key is taken as before"
                );
                self.memory().postpone(id);
                Ok(Some(known.record))
            }
            _ => {
                let refused = Error::new(
                    ErrorCode::KeysUnavailable,
                    "API keys cannot be looked up now",
                )
                .with_retry_after(LOOKUP_LIMIT);
                Err(match error {
                    Some(error) => refused.with_source(error),
                    None => refused,
                })
            }
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Each change is one call of a map: a panic elsewhere leaves it whole.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn recall(&self, id: &str) -> Remembered {
        let now = Instant::now();
        if let Some(known) = self.known.get(id) {
            return if now < known.fresh_until {
                Remembered::Key(Arc::clone(&known.record))
            } else {
                Remembered::Stale(known.clone())
            };
        }
        match self.unknown.get(id) {
            Some(until) if now < *until => Remembered::NoKey,
            _ => Remembered::Nothing,
        }
    }

    fn keep(&mut self, id: &str, found: Option<Arc<KeyRecord>>, read_at: Instant) {
        let fresh_until = read_at + FRESH;
        match found {
            Some(record) => {
                self.unknown.remove(id);
                if self.known.len() >= MAX_KNOWN {
                    make_room(&mut self.known, |known| known.fresh_until);
                }
                let known = Known {
                    record,
                    read_at,
                    fresh_until,
                };
                self.known.insert(id.to_owned(), known);
            }
            None => {
                self.known.remove(id);
                if self.unknown.len() >= MAX_UNKNOWN {
                    make_room(&mut self.unknown, |until| *until);
                }
                self.unknown.insert(id.to_owned(), fresh_until);
            }
        }
    }

    /// Leaves the store alone for a moment.
    fn postpone(&mut self, id: &str) {
        if let Some(known) = self.known.get_mut(id) {
            known.fresh_until = Instant::now() + STORE_PAUSE;
        }
    }
}

/// Drops what is over, and all of it when nothing is: to ask again costs little.
fn make_room<T>(map: &mut HashMap<String, T>, until: impl Fn(&T) -> Instant) {
    let (now, full) = (Instant::now(), map.len());
    map.retain(|_, value| now < until(value));
    if map.len() == full {
        map.clear();
    }
}

#[cfg(test)]
mod tests {
    use sandbox_core::Timestamp;

    use super::*;

    fn key(id: &str) -> KeyRecord {
        KeyRecord {
            id: id.to_owned(),
            tenant: "acme".parse().unwrap(),
            admin: false,
            name: String::new(),
            secret_sha256: [0; 32],
            created_at: Timestamp(0),
            revoked_at: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_has_a_bound() {
        let mut memory = Memory::default();
        for at in 0..3 * MAX_KNOWN {
            let id = at.to_string();
            memory.keep(&format!("un{id}"), None, Instant::now());
            memory.keep(&id, Some(Arc::new(key(&id))), Instant::now());
            assert!(memory.known.len() <= MAX_KNOWN);
            assert!(memory.unknown.len() <= MAX_UNKNOWN);
        }
    }
}
