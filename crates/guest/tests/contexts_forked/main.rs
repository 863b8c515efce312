//! Contexts whose interpreters are forked do what those do that are started.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

/// Every interpreter of Python is forked here.
pub const FORKED: bool = true;

mod forks;
mod guest;
#[path = "../contexts/ipython.rs"]
mod ipython;
#[path = "../contexts/life.rs"]
mod life;
#[path = "../contexts/python.rs"]
mod python;
mod same;
#[path = "../contexts/support.rs"]
mod support;
