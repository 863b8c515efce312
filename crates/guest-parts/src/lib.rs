//! What a guest's services do, wherever the files and the programs are.
//!
//! `sandbox-guest` does it on the file system that it is in; `envd-guest` does it from
//! outside, over the daemon of somebody else's sandbox. Paths, pages of lines, the rules
//! for archives, search in one file, what is kept of a program's output, and the errors:
//! here once, so that the two cannot come to differ.

pub mod archive;
pub mod edit;
pub mod error;
pub mod lines;
pub mod output;
pub mod path;
pub mod search;
pub mod spill;

/// The guest's own folder in the workspace.
pub const OWN_FOLDER: &str = ".sandbox";
