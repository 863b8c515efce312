//! The protocol between the service and the guest in every sandbox.
//!
//! `proto/` is the source; `src/generated` is made from it and compared with
//! it by `tests/generated.rs`. No build step needs `protoc`.

#[expect(
    clippy::allow_attributes,
    missing_docs,
    rust_2018_idioms,
    reason = "generated code has a style of its own"
)]
mod generated {
    include!("generated/mod.rs");
}

pub mod listen;
pub mod takeover;

pub use generated::{filesystem, process, sandbox};
