//! Limits on callers: who may have how many requests and runs, and whose turn it is.
//!
//! A request takes a token of its tenant's bucket or is refused. A run takes one
//! of the service's places: at once if there is one, else it waits in its
//! tenant's line. Free places go round over the tenants that wait, so how many
//! clients a tenant has decides how long its own line is and nothing else.

mod observer;
mod places;
mod queue;
mod rate;
mod run;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use sandbox_core::{Error, ErrorCode, Result, TenantId};

pub use observer::{NoObserver, Observer};
pub use places::{Full, Place, Places};
pub use run::RunPermit;

use queue::{Limits, Queue};
use rate::Rate;
use run::Shared;

/// How much callers may ask for.
#[derive(Clone, Debug)]
pub struct AdmissionSettings {
    /// Runs under way at a time, of one tenant and of the service; 1 or more.
    pub tenant_runs: usize,
    pub total_runs: usize,
    /// Runs that wait, of one tenant and of the service.
    pub tenant_queue: usize,
    pub total_queue: usize,
    /// How long a run waits for its turn.
    pub queue_wait: Duration,
    /// Of one tenant, in the long run; 0 is no limit.
    pub requests_per_second: u32,
    /// Requests that may come at once after a pause; 1 or more.
    pub request_burst: u32,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        Self {
            tenant_runs: 16,
            total_runs: 64,
            tenant_queue: 256,
            total_queue: 1024,
            queue_wait: Duration::from_secs(60),
            requests_per_second: 0,
            request_burst: 50,
        }
    }
}

/// How many runs there are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    pub running: usize,
    pub waiting: usize,
}

/// Lets requests and runs in, or refuses them.
pub struct Admission {
    rate: Option<Rate>,
    shared: Arc<Shared>,
}

impl Admission {
    pub fn new(settings: AdmissionSettings) -> Self {
        Self::observed(settings, Arc::new(NoObserver))
    }

    /// The observer learns of every wait and of every refusal.
    pub fn observed(settings: AdmissionSettings, observer: Arc<dyn Observer>) -> Self {
        let limits = Limits {
            tenant_runs: settings.tenant_runs,
            total_runs: settings.total_runs,
            tenant_queue: settings.tenant_queue,
            total_queue: settings.total_queue,
        };
        Self {
            rate: Rate::new(settings.requests_per_second, settings.request_burst),
            shared: Arc::new(Shared {
                queue: Mutex::new(Queue::new(limits)),
                queue_wait: settings.queue_wait,
                observer,
            }),
        }
    }

    /// Counts a request of this tenant; `rate_limited` when it is one too many.
    pub fn request(&self, tenant: &TenantId) -> Result<()> {
        let Some(rate) = &self.rate else {
            return Ok(());
        };
        rate.take(tenant, Instant::now()).map_err(|after| {
            self.shared.refuse(
                ErrorCode::RateLimited,
                "the tenant sends more requests than it may",
                after,
            )
        })
    }

    /// Waits for a place to run; dropping the permit gives the place back.
    ///
    /// `tenant_busy` when the tenant's line is full; `overloaded` when too many
    /// runs wait in all, or this one waited too long. Dropping the future leaves
    /// the line at once.
    pub async fn run(&self, tenant: &TenantId) -> Result<RunPermit> {
        self.shared.run(tenant).await
    }

    pub fn figures(&self) -> Figures {
        let queue = self.shared.queue();
        Figures {
            running: queue.running(),
            waiting: queue.waiting(),
        }
    }
}

impl Shared {
    fn refuse(&self, code: ErrorCode, detail: &str, retry_after: Duration) -> Error {
        self.observer.refused(code);
        Error::new(code, detail).with_retry_after(retry_after)
    }
}
