//! Sessions over a backend whose sandboxes are tasks of the test.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod contexts;
mod create;
mod delete;
mod explicit;
mod find;
mod limits;
mod loss;
mod pause;
mod pool;
mod reap;
mod restart;
mod run;
mod shutdown;
mod support;
