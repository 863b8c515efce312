//! Packages from PyPI, in environments of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::PYTHON;
use crate::Result;

/// The interpreter of the environment of this name, which is made where it is not there yet.
pub fn python_with(tools: &Path, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = tools.join(name);
    let installed = folder.join("installed");
    let wanted = packages.join("\n");
    let python = folder.join("bin/python");
    if fs::read_to_string(&installed).ok().as_deref() != Some(&wanted) {
        quiet(Command::new(PYTHON).args(["-m", "venv"]).arg(&folder))?;
        quiet(
            Command::new("timeout")
                .arg("120")
                .arg(&python)
                .args(["-m", "pip", "install", "--quiet", "--retries", "1"])
                .args(packages),
        )?;
        fs::write(&installed, wanted)?;
    }
    Ok(python)
}

/// A step of an installation.
fn quiet(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim().lines().last().unwrap_or_default();
    Err(format!("what is measured against cannot be installed: {last:.300}").into())
}
