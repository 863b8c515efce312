//! `os.fork` of a Python that has started and imported before.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use async_trait::async_trait;

use super::{PYTHON, bare};
use crate::{Result, work::Work};

/// A script that is told programs line by line, and answers with seconds.
pub struct Forks {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    program: String,
}

impl Forks {
    pub fn new(modules: &[&str], program: &Path) -> Result<Self> {
        let mut command = bare(PYTHON);
        command.args(["-c", include_str!("forks.py")]).args(modules);
        Self::start(command, program)
    }

    pub fn start(mut command: Command, program: &Path) -> Result<Self> {
        // What programs write lies beside them.
        let mut process = command
            .current_dir(program.parent().ok_or("a program without a folder")?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().ok_or("no stdout")?;
        let mut forks = Self {
            process,
            stdin,
            stdout: BufReader::new(stdout),
            program: program.to_str().ok_or("a path that is no text")?.to_owned(),
        };
        match forks.line()?.as_str() {
            "ready" => Ok(forks),
            said => Err(format!("it is not ready: `{said}`").into()),
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

#[async_trait(?Send)]
impl Work for Forks {
    async fn once(&mut self) -> Result<Duration> {
        let stdin = self.stdin.as_mut().ok_or("no stdin")?;
        writeln!(stdin, "{}", self.program)?;
        let said = self.line()?;
        let seconds = said.parse().map_err(|_| format!("it said `{said}`"))?;
        Ok(Duration::from_secs_f64(seconds))
    }
}

/// The end of its input is its end, and that of what it started.
impl Drop for Forks {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.process.wait();
    }
}
