//! Where an interpreter finds the programs of ours that it runs.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

type Files = &'static [(&'static str, &'static str)];

const SITECUSTOMIZE: (&str, &str) = (
    "sitecustomize.py",
    concat!(
        include_str!("install.py"),
        "\n\n",
        include_str!("sitecustomize.py")
    ),
);
const DISPLAY: (&str, &str) = ("display.py", include_str!("display.py"));
const CONTEXT: (&str, &str) = (
    "context.py",
    include_str!("../contexts/programs/context.py"),
);

/// What interpreters are forked from.
pub(crate) const ZYGOTE: &str = "zygote.py";

/// What makes a Python program display, and what it may be forked from.
const OF_RUNS: Files = &[
    SITECUSTOMIZE,
    DISPLAY,
    ("install.py", include_str!("install.py")),
    CONTEXT,
    ("ahead.py", include_str!("../warm/ahead.py")),
    (ZYGOTE, include_str!("../warm/zygote.py")),
];

/// What makes it display, and what keeps interpreters alive.
const OF_CONTEXTS: Files = &[
    SITECUSTOMIZE,
    DISPLAY,
    ("charts.py", include_str!("charts.py")),
    CONTEXT,
    (
        "context.js",
        include_str!("../contexts/programs/context.js"),
    ),
    ("context.R", include_str!("../contexts/programs/context.R")),
    (
        "context.sh",
        include_str!("../contexts/programs/context.sh"),
    ),
];

/// A folder of files outside the workspace, made when it is first needed.
pub(crate) struct Modules {
    files: Files,
    made: Mutex<Option<PathBuf>>,
}

impl Modules {
    fn new(files: Files) -> Self {
        Self {
            files,
            made: Mutex::default(),
        }
    }

    pub fn of_runs() -> Self {
        Self::new(OF_RUNS)
    }

    pub fn of_contexts() -> Self {
        Self::new(OF_CONTEXTS)
    }

    /// The folder; another one when programs have changed what is in it.
    pub fn path(&self) -> io::Result<PathBuf> {
        let mut path = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        match &*path {
            Some(path) if is_whole(path, self.files) => Ok(path.clone()),
            _ => Ok(path.insert(make(self.files)?).clone()),
        }
    }
}

fn make(files: Files) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let name = format!(".sandbox-python-{:016x}", u64::from_ne_bytes(random));
    let path = std::env::temp_dir().join(name);
    fs::DirBuilder::new().mode(0o755).create(&path)?;
    for (name, text) in files {
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o644);
        let mut file = options.open(path.join(name))?;
        file.write_all(text.as_bytes())?;
    }
    Ok(path)
}

/// Looked at before it is read: a FIFO would be waited for.
fn is_whole(path: &Path, files: Files) -> bool {
    files.iter().all(|(name, text)| {
        let path = path.join(name);
        fs::symlink_metadata(&path)
            .is_ok_and(|found| found.is_file() && found.len() == text.len() as u64)
            && fs::read(&path).is_ok_and(|read| read == text.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_changed_is_not_used_again() {
        let modules = Modules::of_runs();
        let first = modules.path().unwrap();
        assert_eq!(modules.path().unwrap(), first);
        fs::write(first.join("display.py"), "evil").unwrap();
        let second = modules.path().unwrap();
        assert_ne!(first, second);
        fs::remove_dir_all(&second).unwrap();
        let third = modules.path().unwrap();
        assert!(is_whole(&third, OF_RUNS));
        for path in [first, third] {
            fs::remove_dir_all(path).unwrap();
        }
    }
}
