//! The Docker daemon that tests have: one of their own, started by
//! `docker/test-daemon.sh`, never the one that the machine may have.

use std::{env, path::Path, process::Command, sync::OnceLock};

/// Has Python and a shell, and needs no registry.
pub const IMAGE: &str = "sandboxd-test-base:latest";

/// Of the script, when no daemon can be had.
const CANNOT: i32 = 3;

/// Where the daemon listens, as in `DOCKER_HOST`; `None` when there is none, which is
/// said once. In CI that is a failure.
///
/// # Panics
///
/// When the script fails in another way, or in CI, when there is no daemon.
pub fn host() -> Option<&'static str> {
    static HOST: OnceLock<Option<String>> = OnceLock::new();
    HOST.get_or_init(start).as_deref()
}

fn start() -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docker/test-daemon.sh");
    let output = match Command::new("bash").arg(script).output() {
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
