//! What a backend is.
//!
//! A backend makes an isolated place and starts the guest in it; everything
//! that a request asks for is then done by the guest inside the place.

mod earlier;

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use guest_client::GuestClient;
use sandbox_core::{Capabilities, Enforcement, Result, SandboxId, SandboxSpec};
use serde::Serialize;

pub use earlier::Earlier;

/// Something that keeps a backend from working, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub what: String,
    pub fix: String,
}

impl Problem {
    pub fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            fix: fix.into(),
        }
    }
}

/// Whether a backend can make sandboxes now: no problem means yes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Readiness {
    pub problems: Vec<Problem>,
}

impl Readiness {
    pub fn ready(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A sandbox that an earlier life of this service has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub id: SandboxId,
    /// It runs still: [`Backend::create`] takes it over where it can.
    pub running: bool,
}

/// What one sandbox uses now; absent where the backend cannot tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    pub memory_bytes: Option<u64>,
    pub cpu_seconds: Option<f64>,
    pub pids: Option<u32>,
}

/// A driver: makes, finds and removes sandboxes.
#[async_trait]
pub trait Backend: Send + Sync {
    /// The name in settings, answers and metrics.
    fn name(&self) -> &'static str;

    /// What this backend does and enforces.
    fn capabilities(&self) -> Capabilities;

    /// Which mechanism enforces which limit.
    fn enforcement(&self) -> Enforcement;

    /// Looks whether sandboxes can be made, without making one.
    async fn check(&self) -> Readiness;

    /// Makes a sandbox.
    ///
    /// *Requires*: `spec.required()` is within [`Backend::capabilities`], and this
    /// life of the service has no sandbox with this id that runs.
    ///
    /// *Behavior*: a workspace that an earlier sandbox with this id left is used
    /// as it is. A sandbox that still runs since an earlier life of this service,
    /// and is as the spec wants it, may be taken over as it is. Nothing is left
    /// behind on an error but the workspace.
    async fn create(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<Arc<dyn Place>>;

    /// The sandboxes of this service that have a workspace, running or not.
    async fn list(&self) -> Result<Vec<Found>>;

    /// Ends a sandbox that runs since an earlier life of this service and is not to be
    /// taken over; its workspace stays. None is fine.
    async fn end(&self, id: &SandboxId) -> Result<()>;

    /// Removes what a sandbox that does not run has left; none is fine.
    async fn remove(&self, id: &SandboxId) -> Result<()>;

    /// Gives back what is nobody's sandbox, when the service stops and no sandbox
    /// runs any more.
    async fn close(&self);
}

/// A sandbox that exists.
#[async_trait]
pub trait Place: Send + Sync {
    /// The connection to the guest.
    fn guest(&self) -> &GuestClient;

    /// Processes that the memory limit killed so far; `None` if nobody counts.
    fn oom_kills(&self) -> Option<u64>;

    fn usage(&self) -> Usage;

    /// Whether [`Place::adapt`] can give it this spec; told at once.
    fn suits(&self, spec: &SandboxSpec) -> bool;

    /// Gives a sandbox that was made ahead the spec of the session that takes it,
    /// without a restart.
    ///
    /// *Requires*: [`Place::suits`], and no program has run in it.
    ///
    /// *Behavior*: after an error it is of no use.
    async fn adapt(&self, spec: &SandboxSpec) -> Result<()>;

    /// Ends every process in the sandbox; the workspace stays. Idempotent.
    async fn stop(&self) -> Result<()>;

    /// Resolves when the sandbox has ended, for whatever reason.
    fn gone(&self) -> BoxFuture<'static, ()>;
}
