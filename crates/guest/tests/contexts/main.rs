//! Contexts, with real interpreters.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

/// Interpreters are started here, as there is nothing to fork them from.
pub const FORKED: bool = false;

mod guest;
mod ipython;
mod languages;
mod life;
mod python;
mod support;
