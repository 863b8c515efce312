//! The guest's services from outside a sandbox, over E2B's envd.
//!
//! Our guest belongs inside a sandbox. Where it cannot be put there, for nothing may be
//! executed or no port reached, this crate answers in its place: [`serve`] gives the services
//! `sandbox.v1.Code`, `Workspace` and `Search` over any byte stream, so that a `GuestClient`
//! speaks to it as to a guest, and does what they say through the daemon that is in every
//! sandbox of E2B. It uses what that daemon's public contract has and nothing else:
//! `process.Process`, `filesystem.Filesystem`, `/files` and `/metrics`.
//!
//! What is as with a guest: paths and their errors, pages of lines, edits, archives (all or
//! nothing), search with .gitignore, what is kept of a run's output, limits of time, exit
//! codes. The rules are the same code, in `guest-parts`.
//!
//! What is not:
//!
//! - No contexts, no freezing, no forked Python, no artifacts and no `display()`; a run
//!   tells neither processor time nor memory.
//! - A run's end reaches the program, its children, and what carries its mark in the
//!   environment. A process that takes the mark out of its environment and leaves its
//!   parents goes on until the sandbox ends. The search needs `sh` and `grep` in the
//!   sandbox; without them only the program itself is ended.
//! - A rename that must not replace, and a write that must not meet a folder, look first
//!   and then act: a program in the sandbox can come between.
//! - Names that are not UTF-8 are shown, and cannot be read. A link is told with the end
//!   of its way and not with its first step, and disk use is the sum of sizes, not blocks.
//! - On real envd a program's end waits for its streams. It is looked after 0.3 s, and
//!   then ever more seldom, whether only its children hold them.
//! - Files that are searched come over the wire: at most 20,000 of 8 MiB, 512 MiB together.
//! - Where envd is root, it reads what root may; what is the kernel's is refused.
//!
//! No shell line is built from what callers send: programs are started with arguments, and
//! the four scripts here are constants that take theirs as arguments. What a sandbox answers
//! is bounded in size and time, and checked before it is used.

mod archive;
mod contexts;
mod envd;
mod files;
mod listing;
mod own_folder;
mod process;
mod run;
mod search;
mod serve;
mod state;
mod tools;
mod transport;
mod upload;
mod words;
mod workspace;

pub use envd::Envd;
pub use serve::serve;
