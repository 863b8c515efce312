//! A session that is in use.

use std::sync::{Arc, atomic::Ordering};

use guest_client::GuestClient;
use sandbox_core::{Error, ErrorCode, Result, SandboxSpec};
use tokio_util::sync::CancellationToken;

use crate::{
    sandbox::Sandbox,
    session::{Session, paused},
    shared::Shared,
};

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
    pause: CancellationToken,
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
            pause: in_use.session.next_pause(),
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
            error = self.until_over() => Err(error),
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

    /// Resolves when nothing more comes of this lease: its session ends or is paused, or
    /// its sandbox was lost.
    pub async fn until_over(&self) -> Error {
        tokio::select! {
            biased;
            error = self.in_use.session.until_ended() => error,
            () = self.pause.cancelled() => paused(),
            error = self.sandbox.until_given_up() => error,
        }
    }

    /// Nobody gets this sandbox again.
    pub(crate) fn give_up(&self) {
        self.in_use
            .shared
            .mark_lost(&self.in_use.session, &self.sandbox);
    }
}
