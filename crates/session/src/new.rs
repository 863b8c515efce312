//! A session that is made before its first call.

use std::time::Duration;

use guest_client::messages::WriteRequest;
use sandbox_core::{SandboxSpec, SessionOptions};

/// What a session shall be. The same is asked for again when
/// `options.request_sha256` is the same; without one, what a first call makes is meant.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub spec: SandboxSpec,
    pub options: SessionOptions,
    /// Ends the session when nobody uses it for so long; `None`: the operator's.
    pub idle_timeout: Option<Duration>,
    /// Ends it this long after it was made; `None`: the operator's.
    pub ttl: Option<Duration>,
    /// Written before anybody else reaches it, all or the session is not made.
    pub files: Vec<WriteRequest>,
    pub by: CreatedBy,
}

/// Who asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedBy {
    pub subject: String,
    pub request_id: Option<String>,
}

/// What a call on a key does if it finds none.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// One for this call alone.
    ForOneRun,
    /// What the operator's settings say.
    AsUsual,
    /// Nothing: only one that is there.
    Existing,
    /// This, and nothing else that is there.
    AsAsked(&'a NewSession),
}
