//! A service of the bench's own, and what is asked of it.

use std::{
    io::{BufRead as _, BufReader, Lines},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
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
    lines: Lines<BufReader<ChildStdout>>,
    pub url: String,
}

impl Listener {
    /// A program that prints where it listens.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let stdout = process.stdout.take().ok_or("no stdout")?;
        let mut listener = Self {
            process,
            lines: BufReader::new(stdout).lines(),
            url: String::new(),
        };
        listener.url = listener.says("listening on ")?;
        Ok(listener)
    }

    /// The rest of the next line that begins like this.
    fn says(&mut self, prefix: &str) -> Result<String> {
        let mut lines = self.lines.by_ref().map_while(std::result::Result::ok);
        lines
            .find_map(|line| line.strip_prefix(prefix).map(str::to_owned))
            .ok_or_else(|| "it ended before it listened".into())
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
    e2b_url: String,
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
        let mut listener = Listener::start(
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
        let e2b_url = match settings.iter().any(|it| it.0 == "SANDBOX_E2B_LISTEN") {
            true => listener.says("e2b on ")?,
            false => String::new(),
        };
        Ok(Self {
            listener,
            e2b_url,
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

    /// Empty where E2B's clients are not listened for.
    pub fn e2b_url(&self) -> &str {
        &self.e2b_url
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
