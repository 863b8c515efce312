//! A session that is in use.

use std::sync::{Arc, atomic::Ordering};

use guest_client::GuestClient;
use sandbox_core::{ErrorCode, Result, SandboxSpec};

use crate::{sandbox::Sandbox, session::Session, shared::Shared};

/// Counts one user of a session; a session in use is not idle.
pub(crate) struct InUse {
    pub shared: Arc<Shared>,
    pub session: Arc<Session>,
}

impl InUse {
    /// Under the table's lock, so that the reaper sees either all or nothing of it.
    pub fn new(shared: Arc<Shared>, session: Arc<Session>) -> Self {
        session.leases.fetch_add(1, Ordering::SeqCst);
        session.touch(shared.clock.now());
        Self { shared, session }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.session.touch(self.shared.clock.now());
        self.session.leases.fetch_sub(1, Ordering::SeqCst);
        self.shared.released.notify_waiters();
    }
}

/// A living sandbox; its session is in use as long as this is held.
pub struct Lease {
    pub(crate) in_use: InUse,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) made: Made,
}

/// What was made for a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Made {
    /// The sandbox.
    pub created: bool,
    /// The session with it.
    pub fresh: bool,
}

impl Lease {
    pub(crate) fn new(in_use: InUse, sandbox: Arc<Sandbox>, made: Made) -> Self {
        Self {
            in_use,
            sandbox,
            made,
        }
    }

    pub fn guest(&self) -> &GuestClient {
        self.sandbox.place.guest()
    }

    /// What the session was made with.
    pub fn spec(&self) -> &SandboxSpec {
        &self.in_use.session.terms.spec
    }

    /// Whether the sandbox was made for this call.
    pub fn created(&self) -> bool {
        self.made.created
    }

    /// Waits for a call to the guest. It ends with `session_deleted` when the
    /// session does, and with `sandbox_lost` when the sandbox does.
    pub async fn call<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let session = &self.in_use.session;
        let result = tokio::select! {
            biased;
            result = call => result,
            error = session.until_ended() => Err(error),
            error = self.sandbox.until_given_up() => Err(error),
        };
        match result {
            Err(error) if error.code() == ErrorCode::SandboxLost => {
                self.give_up();
                // The sandbox of a session that ends is lost because of that.
                Err(session.ended().unwrap_or(error))
            }
            result => result,
        }
    }

    /// Nobody gets this sandbox again.
    pub(crate) fn give_up(&self) {
        self.in_use
            .shared
            .mark_lost(&self.in_use.session, &self.sandbox);
    }
}
