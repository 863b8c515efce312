//! A service of the bench's own, and what is asked of it.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    Result,
    client::{Call, Client, Expect},
};

/// Host users of each service; those of two must not be the same.
const USERS: u32 = 4000;

/// Ends with its value.
pub struct Listener {
    process: Child,
    pub url: String,
    /// Empty where it does not listen for E2B's clients.
    e2b_url: String,
}

impl Listener {
    /// A program that prints where it listens.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let stdout = process.stdout.take().ok_or("no stdout")?;
        let mut listener = Self {
            process,
            url: String::new(),
            e2b_url: String::new(),
        };
        let lines = BufReader::new(stdout).lines();
        for line in lines.map_while(std::result::Result::ok) {
            if let Some(url) = line.strip_prefix("e2b on ") {
                url.clone_into(&mut listener.e2b_url);
            } else if let Some(url) = line.strip_prefix("listening on ") {
                url.clone_into(&mut listener.url);
                break;
            }
        }
        match listener.url.is_empty() {
            true => Err("it ended before it listened".into()),
            false => Ok(listener),
        }
    }
}

/// The service ends its sandboxes when it is asked to stop, and not when it is killed.
impl Drop for Listener {
    fn drop(&mut self) {
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.process.wait();
    }
}

pub struct Service {
    listener: Listener,
    backend: String,
    _state: TempDir,
}

impl Service {
    pub fn start(program: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let first = 1_900_000_000 + STARTED.fetch_add(1, Ordering::Relaxed) % 16 * USERS;
        let state = tempfile::Builder::new()
            .prefix("sandbox-bench-")
            .permissions(std::fs::Permissions::from_mode(0o711))
            .tempdir()?;
        let listener = Listener::start(
            Command::new(program)
                .arg("serve")
                .env("SANDBOX_STATE_DIR", state.path())
                .env("SANDBOX_LISTEN", "127.0.0.1:0")
                .env("SANDBOX_LOG", "error")
                .env(
                    "SANDBOX_UID_RANGE",
                    format!("{first}-{}", first + USERS - 1),
                )
                .envs(settings.iter().copied()),
        )
        .map_err(|error| format!("{} does not start: {error}", program.display()))?;
        let backend = settings.iter().find(|it| it.0 == "SANDBOX_BACKEND");
        Ok(Self {
            listener,
            backend: backend.map_or("local", |it| it.1).to_owned(),
            _state: state,
        })
    }

    pub fn pid(&self) -> u32 {
        self.listener.process.id()
    }

    pub fn url(&self) -> &str {
        &self.listener.url
    }

    pub fn e2b_url(&self) -> &str {
        &self.listener.e2b_url
    }

    pub async fn client(&self) -> Result<Client> {
        Client::connect(self.url()).await
    }

    pub async fn post(&self, path: &str, body: &Value, expect: Expect) -> Result<Call> {
        Call::post(self.url(), path, body, expect).await
    }

    pub async fn python(&self, session: &str, code: &str, expect: Expect) -> Result<Call> {
        let body = json!({"session_id": session, "code": code});
        self.post("/execute", &body, expect).await
    }

    pub async fn bash(&self, session: &str, command: &str) -> Result<Call> {
        let body = json!({"session_id": session, "command": command});
        let expect = Expect::Ends { stdout: None };
        self.post("/bash", &body, expect).await
    }

    /// Waits for a metric of the service's own backend.
    pub async fn until(&self, metric: &str, value: usize) -> Result<()> {
        let line = format!("{metric}{{backend=\"{}\"}} {value}\n", self.backend);
        let mut client = self.client().await?;
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            let answer = client.ask(Method::GET, "/metrics", Bytes::new()).await?;
            if String::from_utf8_lossy(&answer.body).contains(&line) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(format!("`{metric}` is not {value}").into())
    }

    pub async fn until_pool(&self, size: usize) -> Result<()> {
        self.until("sandbox_pool_ready", size).await
    }
}
