//! The service as its users meet it: the real binary, real sandboxes, HTTP.

mod auth;
mod files;
mod isolation;
mod limits;
mod requests;
mod restart;
mod run;
mod sessions;
mod support;
