//! Source code in a file for the time of a run.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Removes its file when dropped.
pub(crate) struct ScriptFile(PathBuf);

impl ScriptFile {
    /// Puts `source` into the workspace, so that a program finds its neighbours
    /// as a file there would: `main.py` becomes `.main-<random>.py`.
    pub fn create(workspace: &Path, file_name: &str, source: &[u8]) -> io::Result<Self> {
        let given = Path::new(file_name);
        let stem = given.file_stem().unwrap_or_default().to_string_lossy();
        let extension = given.extension().unwrap_or_default().to_string_lossy();
        let mut random = [0; 6];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = workspace.join(format!(".{stem}-{random}.{extension}"));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let script = Self(path);
        file.write_all(source)?;
        Ok(script)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScriptFile {
    fn drop(&mut self) {
        // The program may have removed it.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_hidden_private_and_gone_after_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let script = ScriptFile::create(dir.path(), "main.py", b"print(1)").unwrap();
        let name = script
            .path()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        assert!(
            name.starts_with(".main-") && name.ends_with(".py"),
            "{name}"
        );
        assert_eq!(fs::read(script.path()).unwrap(), b"print(1)");
        drop(script);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
