//! Runs that wait for their place, and the permit that is one.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sandbox_core::{Error, ErrorCode, Result, TenantId};
use tokio::sync::oneshot;

use crate::{
    Observer,
    queue::{Arrival, Queue, Ticket},
};

const BUSY_RETRY: Duration = Duration::from_secs(1);
/// Longer: all callers together are to come back less often.
const OVERLOADED_RETRY: Duration = Duration::from_secs(5);

pub(crate) struct Shared {
    pub(crate) queue: Mutex<Queue<oneshot::Sender<RunPermit>>>,
    pub(crate) queue_wait: Duration,
    pub(crate) observer: Arc<dyn Observer>,
}

impl Shared {
    /// Nothing is sent or dropped while it is held: a permit's drop takes it too.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue<oneshot::Sender<RunPermit>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn run(self: &Arc<Self>, tenant: &TenantId) -> Result<RunPermit> {
        let began = Instant::now();
        let (sender, granted) = oneshot::channel();
        let arrival = self.queue().arrive(tenant, sender);
        let permit = match arrival {
            Arrival::Runs => self.permit(tenant.clone()),
            Arrival::Waits { ticket, shed } => {
                // That its sender is gone tells the other run that it was shed.
                drop(shed);
                let mut waiting = Waiting {
                    shared: self,
                    tenant,
                    ticket,
                    granted,
                };
                match tokio::time::timeout(self.queue_wait, &mut waiting.granted).await {
                    Ok(Ok(permit)) => permit,
                    Ok(Err(_)) => return Err(self.overloaded()),
                    Err(_) => {
                        return Err(self.refuse(
                            ErrorCode::Overloaded,
                            "the run waited too long for its turn",
                            OVERLOADED_RETRY,
                        ));
                    }
                }
            }
            Arrival::TenantBusy => {
                return Err(self.refuse(
                    ErrorCode::TenantBusy,
                    "too many runs of this tenant are under way and waiting",
                    BUSY_RETRY,
                ));
            }
            Arrival::Overloaded => return Err(self.overloaded()),
        };
        self.observer.admitted(began.elapsed());
        Ok(permit)
    }

    fn permit(self: &Arc<Self>, tenant: TenantId) -> RunPermit {
        RunPermit {
            shared: Arc::clone(self),
            tenant,
        }
    }

    fn overloaded(&self) -> Error {
        self.refuse(
            ErrorCode::Overloaded,
            "the service has more runs waiting than it takes",
            OVERLOADED_RETRY,
        )
    }
}

/// A run in its lane. Its drop leaves the lane first, and then drops what it may
/// have been given in the meantime, which passes that on.
struct Waiting<'a> {
    shared: &'a Shared,
    tenant: &'a TenantId,
    ticket: Ticket,
    granted: oneshot::Receiver<RunPermit>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let left = self.shared.queue().leave(self.tenant, self.ticket);
        drop(left);
    }
}

/// A place to run; its drop gives the place to the run whose turn it is.
#[must_use = "the place is given back at once when this is dropped"]
pub struct RunPermit {
    shared: Arc<Shared>,
    tenant: TenantId,
}

impl std::fmt::Debug for RunPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RunPermit").field(&self.tenant).finish()
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        let next = self.shared.queue().finish(&self.tenant);
        if let Some((tenant, waiter)) = next {
            // Given back where the run has just gone; dropping it passes it on.
            let _ = waiter.send(self.shared.permit(tenant));
        }
    }
}
