//! Contexts, with real interpreters.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/mod.rs"]
mod guest;
mod ipython;
mod languages;
mod life;
mod python;
mod support;
