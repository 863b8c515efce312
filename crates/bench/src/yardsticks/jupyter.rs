//! A round trip to a Jupyter kernel: what a context is measured against.

use std::path::Path;

use super::{Forks, bare, venv::python_with};
use crate::Result;

const PACKAGES: [&str; 2] = ["ipykernel==7.4.0", "jupyter_client==8.10.0"];

pub struct Jupyter;

impl Jupyter {
    /// From PyPI into an environment of its own, where it is not there yet.
    pub fn start(tools: &Path, program: &Path) -> Result<Forks> {
        let python = python_with(tools, "jupyter", &PACKAGES)?;
        let mut command = bare(python);
        command.args(["-c", include_str!("kernel.py")]);
        Forks::start(command, program)
    }
}
