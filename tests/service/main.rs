//! The service as its users meet it: the real binary, real sandboxes, HTTP.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod audit;
mod auth;
mod document;
mod executions;
mod files;
mod hostile;
mod isolation;
mod languages;
mod limits;
mod load;
mod openapi;
mod requests;
mod restart;
mod run;
mod sessions;
mod support;
#[cfg(feature = "otlp")]
mod tracing;
