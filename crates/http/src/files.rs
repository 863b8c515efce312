//! The files of a workspace. The service never opens them: each call is the guest's.

mod range;
pub(crate) mod read;
pub(crate) mod read_binary;
pub(crate) mod send;
pub(crate) mod tree;
pub(crate) mod write;

/// The default path of the routes that take a directory.
pub(crate) fn workspace() -> String {
    ".".into()
}
