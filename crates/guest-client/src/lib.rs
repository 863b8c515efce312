//! A connection to the guest in a sandbox.
//!
//! One HTTP/2 connection over any byte stream carries every call, each with
//! flow control of its own. What the guest answers is input from inside the
//! sandbox: it is bounded and checked here.

mod archive;
mod connection;
mod contexts;
mod error;
mod files;
mod forward;
mod life;
mod ports;
mod process;
mod run;
mod takeover;

pub use archive::ArchiveStream;
pub use connection::{GuestClient, GuestConfig};
/// What [`GuestClient::forward`] takes as a body.
pub use connectrpc::client::{ClientBody, full_body};
pub use files::FileStream;
pub use forward::is_of_the_contract;
pub use ports::{PortError, PortStream};
pub use process::{ProcessEvent, ProcessRequest, ProcessStream};
pub use run::{Collected, RunEnd, RunEvent, RunStream, ended_early};
/// The messages of the calls that are passed on as they are.
pub use sandbox_wire::sandbox::v1 as messages;
pub use takeover::{TAKEOVER_SIGNAL, take_over};
