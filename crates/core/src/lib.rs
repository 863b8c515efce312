//! The words of the field as types. Everybody may know this crate; it knows nobody.
//!
//! Values are parsed at the border: a [`TenantId`] that exists is valid.

mod capability;
mod clock;
mod context;
mod error;
mod id;
mod limits;
mod run;
mod session;
mod spec;

pub use capability::{Capabilities, Capability};
pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use context::{
    ContextDriver, ContextEnd, ContextInfo, ContextLimits, ContextLoss, InContext, Raised,
};
pub use error::{Error, ErrorCode, Result, chain};
pub use id::{ContextName, ExecutionId, SandboxId, SessionId, SessionKey, TenantId};
pub use limits::{ByteSize, Enforcement, Limits};
pub use run::{
    Artifact, ArtifactLimits, Captured, OutputFile, Phase, Program, RunOutcome, RunRequest, Script,
    Stream, Termination,
};
pub use session::{E2bOptions, OnEnd, SessionOptions};
pub use spec::{NetworkPolicy, SandboxSpec};
