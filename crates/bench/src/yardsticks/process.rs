//! Programs that are started for each sample.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use async_trait::async_trait;

use super::PYTHON;
use crate::{Result, work::Work};

/// With no variables that make a program slower or faster than it is in a sandbox.
pub fn bare(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let kept = ["PATH", "HOME"].map(|name| (name, env::var_os(name).unwrap_or_default()));
    command.env_clear().envs(kept);
    command
}

#[derive(Clone)]
pub struct Process {
    words: Vec<String>,
    folder: Option<PathBuf>,
    lines: Option<usize>,
}

impl Process {
    pub fn new(words: &[&str]) -> Self {
        Self {
            words: words.iter().map(|it| (*it).to_owned()).collect(),
            folder: None,
            lines: None,
        }
    }

    pub fn within(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// How many lines it must print.
    pub fn prints(mut self, lines: usize) -> Self {
        self.lines = Some(lines);
        self
    }

    /// As the service isolates a sandbox, in what matters for time: every namespace, and a
    /// root of its own.
    pub fn in_bubblewrap(words: &[&str]) -> Self {
        let wrap = "bwrap --unshare-all --unshare-user --die-with-parent --new-session \
                    --cap-drop ALL --ro-bind /usr /usr --symlink usr/bin /bin \
                    --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev \
                    --tmpfs /tmp --tmpfs /workspace --chdir /workspace --";
        let wrap: Vec<_> = wrap.split_ascii_whitespace().collect();
        Self::new(&[&wrap, words].concat())
    }

    fn run(&self) -> Result<Duration> {
        let (program, arguments) = self.words.split_first().ok_or("no program")?;
        let mut command = bare(program);
        command.args(arguments).stdin(Stdio::null());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let began = Instant::now();
        let output = command
            .output()
            .map_err(|error| format!("`{program}` cannot be started: {error}"))?;
        let took = began.elapsed();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`{program}` failed: {said:.300}").into());
        }
        let lines = output.stdout.split(|it| *it == b'\n').count() - 1;
        match self.lines {
            Some(wanted) if wanted != lines => {
                Err(format!("`{program}` printed {lines} lines, not {wanted}").into())
            }
            _ => Ok(took),
        }
    }
}

#[async_trait(?Send)]
impl Work for Process {
    async fn once(&mut self) -> Result<Duration> {
        self.run()
    }
}

/// One of several that are to run at once.
pub struct Threaded(pub Process);

#[async_trait(?Send)]
impl Work for Threaded {
    async fn once(&mut self) -> Result<Duration> {
        let process = self.0.clone();
        tokio::task::spawn_blocking(move || process.run()).await?
    }
}

/// The interpreter without what packages of the machine do when it starts: a `.pth` file
/// costs milliseconds, and a slow yardstick would flatter the service, whose sandboxes
/// have the same files and must start with them.
pub struct Plain {
    pub python: String,
}

impl Plain {
    pub fn new(tools: &Path) -> Result<Self> {
        let folder = tools.join("plain");
        let python = folder.join("bin/python");
        if !python.exists() {
            let mut make = Command::new(PYTHON);
            make.args(["-m", "venv", "--without-pip"]).arg(&folder);
            if !make.status()?.success() {
                return Err(format!("{PYTHON} cannot make a virtual environment").into());
            }
        }
        let python = python.to_str().ok_or("a path that is no text")?.to_owned();
        Ok(Self { python })
    }

    pub fn runs(&self, code: &str) -> Process {
        Process::new(&[&self.python, "-c", code])
    }
}
