//! Sandboxes in Docker containers.
//!
//! A session has one container and one volume, the workspace. The guest is put
//! into any image by a read-only volume that is filled when the service starts; it
//! is the container's init, and its connection is the stream that is attached to the
//! container's standard input and output. So a run in a living sandbox does not call
//! the Docker API, and nothing depends on a file system that service and daemon share.

mod backend;
mod config;
mod connection;
mod container;
mod daemon;
mod error;
mod events;
mod guest_volume;
mod helper;
mod image;
mod names;
mod place;
mod survivors;
mod workspace;

pub use backend::DockerBackend;
pub use config::{DockerConfig, Gpu, PullPolicy};
