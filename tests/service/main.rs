//! The service as its users meet it: the real binary, real sandboxes, HTTP.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod archive;
mod artifact_lives;
mod artifact_packages;
mod artifacts;
mod audit;
mod auth;
mod contexts;
mod created;
mod docker;
mod document;
mod e2b_backend;
mod e2b_doors;
mod executions;
mod files;
mod hostile;
mod isolation;
mod languages;
mod limits;
mod load;
mod openapi;
mod postgres;
#[expect(dead_code, reason = "the store's tests use more of it")]
#[path = "../../crates/store/tests/server/mod.rs"]
mod postgres_server;
mod processes;
mod requests;
mod restart;
mod run;
mod sessions;
mod support;
#[cfg(feature = "otlp")]
mod tracing;
mod websocket;
