//! The bodies of calls: allow lists over their members.
//!
//! A member that no list names must say nothing (null, false, 0, "", [] or {}), and
//! is not sent on; the daemon then takes its default, which is why members
//! whose default is not the safe value must be given.

mod container;
mod environment;
mod host;
mod mounts;
mod resources;
mod seccomp;
mod volume;

pub use container::{Role, container};
pub use resources::update;
pub use volume::{is_plain_volume, volume};
