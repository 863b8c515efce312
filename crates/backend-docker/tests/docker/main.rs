//! Containers on a real daemon, looked at from outside. What every backend does is
//! the conformance suite's.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod disk;
mod images;
mod isolation;
mod life;
mod restarts;
mod support;
