//! E2B's SDK for Python, from PyPI.

use std::path::Path;

use bytes::{BufMut as _, Bytes, BytesMut};
use serde_json::Value;

use super::{Forks, bare, venv::python_with};
use crate::Result;

/// As in `tests/e2b/requirements.txt`.
const PACKAGE: &str = "e2b==2.63.0";

pub struct Sdk;

impl Sdk {
    /// From PyPI into an environment of its own, where it is not there yet.
    pub fn start(tools: &Path, program: &Path, url: &str) -> Result<Forks> {
        let python = python_with(tools, "e2b", &[PACKAGE])?;
        let mut command = bare(python);
        command
            .args(["-c", include_str!("sdk.py")])
            .env(
                "E2B_API_KEY",
                "e2b_0000000000000000000000000000000000000000",
            )
            .env("E2B_API_URL", url)
            .env("E2B_SANDBOX_URL", url);
        Forks::start(command, program)
    }
}

/// A message of a Connect stream: a byte of flags, its length, itself.
pub fn in_form(message: &Value) -> Result<Bytes> {
    let message = serde_json::to_vec(message)?;
    let mut frame = BytesMut::with_capacity(5 + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len())?);
    frame.put_slice(&message);
    Ok(frame.freeze())
}
