//! A service of its own, and a client that keeps its connection.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Result;

pub struct Service {
    process: Child,
    url: String,
    _state: TempDir,
}

impl Service {
    pub fn start(program: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let state = tempfile::Builder::new()
            .permissions(std::fs::Permissions::from_mode(0o711))
            .tempdir()?;
        let mut process = Command::new(program)
            .arg("serve")
            .env("SANDBOX_STATE_DIR", state.path())
            .env("SANDBOX_LISTEN", "127.0.0.1:0")
            .env("SANDBOX_LOG", "error")
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = process.stdout.take().ok_or("no stdout")?;
        let url = BufReader::new(stdout)
            .lines()
            .map_while(std::result::Result::ok)
            .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned))
            .ok_or("the service did not start")?;
        Ok(Self {
            process,
            url,
            _state: state,
        })
    }

    pub fn client(&self) -> Client {
        Client {
            url: self.url.clone(),
            agent: ureq::Agent::new_with_defaults(),
        }
    }
}

/// It stops its sandboxes when it is asked, and not when it is killed.
impl Drop for Service {
    fn drop(&mut self) {
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.process.wait();
    }
}

pub struct Client {
    url: String,
    agent: ureq::Agent,
}

impl Client {
    pub fn bash(&self, session: &str, command: &str) -> Result<()> {
        self.run("/bash", json!({"session_id": session, "command": command}))
    }

    pub fn execute(&self, session: &str, code: &str) -> Result<()> {
        self.run("/execute", json!({"session_id": session, "code": code}))
    }

    fn run(&self, path: &str, body: Value) -> Result<()> {
        let mut answer = self
            .agent
            .post(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .send(body.to_string())?;
        let answer: Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
        match answer["exit_code"].as_i64() {
            Some(0) => Ok(()),
            _ => Err(format!("a run did not end well: {answer}").into()),
        }
    }

    pub fn delete(&self, session: &str) -> Result<()> {
        let path = format!("{}/sessions/default/{session}", self.url);
        self.agent.delete(path).call()?;
        Ok(())
    }

    pub fn until_pool(&self, size: u32) -> Result<()> {
        let line = format!("sandbox_pool_ready{{backend=\"docker\"}} {size}\n");
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            let mut answer = self.agent.get(format!("{}/metrics", self.url)).call()?;
            if answer.body_mut().read_to_string()?.contains(&line) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("the pool is not filled".into())
    }
}
