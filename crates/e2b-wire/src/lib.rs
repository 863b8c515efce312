//! E2B's public interface as types, for both of its sides: a service that answers
//! E2B's SDKs, and a client of an E2B server.
//!
//! Names and meanings follow `spec/openapi.yml` and `packages/envd/spec` of the
//! repository e2b-dev/infra and the server of e2b-dev/code-interpreter. Fields that
//! this side does not know are ignored when an answer is read, and kept apart when a
//! request is read ([`NewSandbox::unknown`]), for what is asked for must not be
//! dropped in silence.

mod ascii;
mod error;
pub mod headers;
pub mod interpreter;
mod network;
mod new_sandbox;
mod proxy;
mod sandbox;
mod signature;

pub use ascii::to_ascii_line;
pub use error::ApiError;
pub use network::{EgressProxy, NetworkConfig, NetworkUpdate};
pub use new_sandbox::{
    AutoResume, ConnectSandbox, NewSandbox, PauseSandbox, RefreshSandbox, ResumeSandbox,
    SandboxTimeout,
};
pub use proxy::ProxyError;
pub use sandbox::{
    EnvdMetrics, Lifecycle, ListedSandbox, OnTimeout, PauseMode, Sandbox, SandboxDetail,
    SandboxMetric, SandboxState,
};
pub use signature::{FileOperation, FileSignature};

/// The port of envd in every sandbox.
pub const ENVD_PORT: u16 = 49983;
/// The port of the code interpreter in the sandboxes that have one.
pub const INTERPRETER_PORT: u16 = 49999;
