//! Keys that are fetched from a URL, and kept.
//!
//! One task fetches; requests only look at what it published. A request whose
//! key is unknown asks the task to fetch and waits for that fetch, which all
//! who ask meanwhile share; so invented key ids cost one fetch per
//! [`JwksTimes::between_fetches`], however many there are:
//!
//! ```text
//!         max_age or retry over, or asked
//!   idle ---------------------------------> fetching
//!     ^                                        |
//!     +---- published; between_fetches over ---+
//! ```
//!
//! A fetch that fails leaves the last good set in place.

use std::{error::Error as _, sync::Arc, time::Duration};

use sandbox_core::{Error, ErrorCode, Result};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, info, warn};

use crate::{Algorithm, FetchError, JwksUrl, VerifyingKey, jwk::KeySet, unauthorized};

/// How often keys are fetched, and how long one fetch may take.
#[derive(Clone, Copy, Debug)]
pub struct JwksTimes {
    /// Between the end of a fetch and the next, whoever asks.
    pub between_fetches: Duration,
    /// After which a set is fetched again, unasked; so a key that its issuer
    /// withdrew is used no longer than this.
    pub max_age: Duration,
    /// After a fetch that failed, unasked.
    pub retry: Duration,
    pub fetch_limit: Duration,
}

impl Default for JwksTimes {
    fn default() -> Self {
        Self {
            between_fetches: Duration::from_secs(10),
            max_age: Duration::from_secs(300),
            retry: Duration::from_secs(30),
            fetch_limit: Duration::from_secs(5),
        }
    }
}

/// The keys at a URL; the task that fetches them ends with it.
pub struct Jwks {
    times: JwksTimes,
    published: watch::Receiver<Published>,
    asked: Arc<Notify>,
    task: JoinHandle<()>,
}

#[derive(Clone, Default)]
struct Published {
    /// The last good one.
    set: Option<Arc<KeySet>>,
    fetching: bool,
    /// How many fetches there were.
    fetches: u64,
    /// Before which nobody fetches.
    not_before: Option<Instant>,
}

impl Jwks {
    /// Begins to fetch; that there is no answer yet is no error.
    ///
    /// Requires a Tokio runtime.
    pub fn start(url: JwksUrl, only: Option<Algorithm>, times: JwksTimes) -> Self {
        let (publish, published) = watch::channel(Published {
            // The task begins with it.
            fetching: true,
            ..Published::default()
        });
        let asked = Arc::new(Notify::new());
        let fetcher = Fetcher {
            url,
            only,
            times,
            publish,
            asked: Arc::clone(&asked),
        };
        Self {
            times,
            published,
            asked,
            task: tokio::spawn(fetcher.run()),
        }
    }

    /// The key with this id, or the only one there is.
    pub(crate) async fn find(&self, id: Option<&str>) -> Result<Arc<VerifyingKey>> {
        let now = self.published.borrow().clone();
        if let Some(key) = now.find(id) {
            return Ok(key);
        }
        // A token without an id does not become clearer by another fetch.
        let worth_asking = id.is_some() || now.set.is_none();
        if worth_asking && now.may_fetch() {
            return self.fetched_after(now.fetches).await?.result(id);
        }
        now.result(id)
    }

    /// What the next fetch, or the one under way, publishes.
    async fn fetched_after(&self, fetches: u64) -> Result<Published> {
        let mut published = self.published.clone();
        if !published.borrow().fetching {
            self.asked.notify_one();
        }
        let limit = self.times.fetch_limit + Duration::from_secs(1);
        let fetched = timeout(limit, published.wait_for(|it| it.fetches > fetches)).await;
        match fetched {
            Ok(Ok(published)) => Ok(published.clone()),
            _ => Err(unavailable(self.times.between_fetches)),
        }
    }
}

impl Drop for Jwks {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Published {
    fn find(&self, id: Option<&str>) -> Option<Arc<VerifyingKey>> {
        self.set.as_ref()?.find(id)
    }

    fn may_fetch(&self) -> bool {
        self.fetching || self.not_before.is_none_or(|time| time <= Instant::now())
    }

    fn result(&self, id: Option<&str>) -> Result<Arc<VerifyingKey>> {
        if self.set.is_none() {
            let wait = self.not_before.map_or(Duration::ZERO, |time| {
                time.saturating_duration_since(Instant::now())
            });
            return Err(unavailable(wait));
        }
        self.find(id).ok_or_else(|| {
            unauthorized(match id {
                Some(_) => "the token is signed with a key that is not known",
                None => "the token names no key (`kid`), and there is not exactly one",
            })
        })
    }
}

fn unavailable(retry_after: Duration) -> Error {
    Error::new(
        ErrorCode::KeysUnavailable,
        "the keys that tokens are signed with could not be fetched yet",
    )
    .with_retry_after(retry_after.max(Duration::from_secs(1)))
}

/// The task that fetches.
struct Fetcher {
    url: JwksUrl,
    only: Option<Algorithm>,
    times: JwksTimes,
    publish: watch::Sender<Published>,
    asked: Arc<Notify>,
}

impl Fetcher {
    async fn run(self) {
        let mut failed_before = false;
        loop {
            self.publish.send_modify(|it| it.fetching = true);
            let fetched = self.fetch().await;
            let failed = fetched.is_err();
            log(&fetched, failed_before);
            failed_before = failed;
            let ended = Instant::now();
            let not_before = ended + self.times.between_fetches;
            self.publish.send_modify(|it| {
                if let Ok(set) = fetched {
                    it.set = Some(Arc::new(set));
                }
                it.fetching = false;
                it.fetches += 1;
                it.not_before = Some(not_before);
            });
            let unasked = if failed {
                self.times.retry
            } else {
                self.times.max_age
            };
            sleep_until(not_before).await;
            tokio::select! {
                () = self.asked.notified() => {}
                () = sleep_until(ended + unasked) => {}
            }
        }
    }

    async fn fetch(&self) -> Result<KeySet, FetchError> {
        let answer = self.url.fetch(self.times.fetch_limit).await?;
        KeySet::read(&answer, self.only).map_err(FetchError::NotKeys)
    }
}

/// Of failures in a row, only the first is for the operator.
fn log(fetched: &Result<KeySet, FetchError>, failed_before: bool) {
    match fetched {
        Ok(set) if set.len() == 0 => warn!(
            keys.left_out = set.left_out(),
            "the set of keys has none that may check tokens: every token is refused"
        ),
        Ok(set) if failed_before => info!(keys = set.len(), "the set of keys is fetched again"),
        Ok(set) => debug!(
            keys = set.len(),
            keys.left_out = set.left_out(),
            "fetched the set of keys"
        ),
        Err(error) if failed_before => debug!("failed to fetch the set of keys: {error}"),
        Err(error) => {
            let cause = error.source().map(|it| format!(": {it}"));
            let cause = cause.unwrap_or_default();
            warn!(
                "failed to fetch the set of keys: {error}{cause}; the last good one, if any, stays in use"
            );
        }
    }
}
