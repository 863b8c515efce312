//! A service of its own with the E2B API, and keys for it.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Stdio},
    thread,
};

use tempfile::TempDir;

pub struct Server {
    process: Child,
    /// Of our own API.
    pub url: String,
    /// Of E2B's.
    pub e2b: String,
    state: TempDir,
}

pub enum Key {
    Own,
    /// Of the form that E2B's have.
    E2b,
}

impl Server {
    pub fn start(settings: &[(&str, &str)]) -> Self {
        // Sandboxes of a service that is root run as other users, who must be able to pass.
        let state = tempfile::Builder::new()
            .prefix("sandboxd-e2b-")
            .permissions(std::fs::Permissions::from_mode(0o711))
            .tempdir()
            .unwrap();
        let mut process = sandboxd(&state)
            .arg("serve")
            .env("SANDBOX_LISTEN", "127.0.0.1:0")
            .env("SANDBOX_E2B_LISTEN", "127.0.0.1:0")
            .env("SANDBOX_LOG", "warn")
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (mut url, mut e2b) = (None, None);
        while url.is_none() || e2b.is_none() {
            let line = lines
                .next()
                .expect("the service says where it listens")
                .unwrap();
            if let Some(at) = line.strip_prefix("listening on ") {
                url = Some(at.to_owned());
            }
            if let Some(at) = line.strip_prefix("e2b on ") {
                e2b = Some(at.to_owned());
            }
        }
        // What else it says must not fill the pipe.
        thread::spawn(move || lines.count());
        Self {
            process,
            url: url.unwrap(),
            e2b: e2b.unwrap(),
            state,
        }
    }

    pub fn signal(&self, name: &str) {
        let process = self.process.id().to_string();
        let status = Command::new("kill")
            .args(["-s", name, &process])
            .status()
            .unwrap();
        assert!(status.success());
    }

    pub fn key(&self, tenant: &str, kind: Key) -> String {
        let mut command = sandboxd(&self.state);
        command.args(["keys", "create", "--tenant", tenant]);
        if matches!(kind, Key::E2b) {
            command.arg("--e2b");
        }
        let output = command.stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An orderly stop: it takes its containers with it.
        let _ = Command::new("kill")
            .args(["-TERM", &self.process.id().to_string()])
            .status();
        for _ in 0..600 {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(std::time::Duration::from_millis(50));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn sandboxd(state: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandboxd"));
    command
        .env("SANDBOX_STATE_DIR", state.path())
        .env("SANDBOX_API_KEYS", "true");
    command
}
