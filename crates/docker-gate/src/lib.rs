//! Stands between the service and the Docker socket.
//!
//! Whoever may talk to that socket is root on its host. The gate lets through the
//! few calls that sandboxes need, on containers and volumes that were made through
//! it, and refuses everything else. Nothing that came is passed on: path, query,
//! JSON and archive are parsed, checked, and written anew from what was understood,
//! so that the daemon cannot read in a request what the gate has not seen.
//!
//! ```text
//! bytes -> hyper -> target -> call -> body -> ours -> upstream -> daemon
//!                  (path)  (which)  (allow   (whose)
//!                                    lists)
//! ```

mod archive;
mod body;
mod call;
mod fields;
mod filters;
mod gate;
mod image;
mod json;
mod names;
mod ours;
mod policy;
mod query;
mod refusal;
mod serve;
mod stall;
mod target;
mod tunnel;
mod upstream;

pub use policy::{Policy, PolicyError};
pub use serve::{GateLimits, Listener, serve};
