//! A round trip to a Jupyter kernel: what a context is measured against.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use super::{Forks, PYTHON, bare};
use crate::Result;

const PACKAGES: [&str; 2] = ["ipykernel==7.4.0", "jupyter_client==8.10.0"];

pub struct Jupyter;

impl Jupyter {
    /// From PyPI into an environment of its own, where it is not there yet.
    pub fn start(tools: &Path, program: &Path) -> Result<Forks> {
        let folder = tools.join("jupyter");
        let installed = folder.join("installed");
        let wanted = PACKAGES.join("\n");
        if fs::read_to_string(&installed).ok().as_deref() != Some(&wanted) {
            quiet(Command::new(PYTHON).args(["-m", "venv"]).arg(&folder))?;
            quiet(
                Command::new("timeout")
                    .arg("120")
                    .arg(folder.join("bin/python"))
                    .args(["-m", "pip", "install", "--quiet", "--retries", "1"])
                    .args(PACKAGES),
            )?;
            fs::write(&installed, wanted)?;
        }
        let mut command = bare(folder.join("bin/python"));
        command.args(["-c", include_str!("kernel.py")]);
        Forks::start(command, program)
    }
}

/// A step of an installation.
pub(super) fn quiet(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim().lines().last().unwrap_or_default();
    Err(format!("what is measured against cannot be installed: {last:.300}").into())
}
