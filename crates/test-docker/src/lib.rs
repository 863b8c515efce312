//! The Docker daemon that tests have: one of their own, started by
//! `docker/test-daemon.sh`, never the one that the machine may have.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Has Python and a shell, and needs no registry.
pub const IMAGE: &str = "sandboxd-test-base:latest";

/// Of the script, when no daemon can be had.
const CANNOT: i32 = 3;

/// Another daemon, which its test may end and start again.
pub struct Daemon {
    pub host: String,
    data: PathBuf,
}

impl Daemon {
    /// `None` where there is none for the other tests.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn own(data: &Path) -> Option<Self> {
        host()?;
        let mut daemon = Self {
            host: String::new(),
            data: data.to_owned(),
        };
        daemon.start();
        Some(daemon)
    }

    /// # Panics
    ///
    /// When it does not start.
    pub fn start(&mut self) {
        let mut command = script();
        command
            .env("DOCKER_TEST_DIR", &self.data)
            .env("DOCKER_TEST_BASE_FROM", host().unwrap_or_default());
        let host = run(command);
        assert!(host.is_some(), "the daemon does not start");
        self.host = host.unwrap_or_default();
    }

    pub fn stop(&self) {
        let mut command = script();
        command.arg("stop").env("DOCKER_TEST_DIR", &self.data);
        let _ = command.status();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Where the daemon listens, as in `DOCKER_HOST`; `None` when there is none, which is
/// said once. In CI that is a failure.
///
/// # Panics
///
/// When the script fails in another way, or in CI, when there is no daemon.
pub fn host() -> Option<&'static str> {
    static HOST: OnceLock<Option<String>> = OnceLock::new();
    HOST.get_or_init(|| run(script())).as_deref()
}

/// What a command of Docker's prints; it must end well.
///
/// # Panics
///
/// When it does not.
pub fn docker(host: &str, arguments: &[&str]) -> String {
    let mut command = Command::new("docker");
    command.args(["--host", host]).args(arguments);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => panic!("`docker` cannot be started: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn script() -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docker/test-daemon.sh");
    let mut command = Command::new("bash");
    command.arg(script);
    command
}

fn run(mut command: Command) -> Option<String> {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => panic!("the script for the Docker daemon cannot be started: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.code() == Some(CANNOT) {
        assert!(env::var_os("CI").is_none(), "{said}");
        eprintln!("SKIPPED: {said}");
        return None;
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    let host = stdout
        .lines()
        .last()
        .and_then(|it| it.strip_prefix("DOCKER_HOST="));
    assert!(output.status.success() && host.is_some(), "{said}");
    host.map(str::to_owned)
}
