//! A service of its own for each test, and a client for it.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

pub struct Service {
    process: Child,
    pub url: String,
    state: TempDir,
    settings: Vec<(String, String)>,
}

/// An answer of the service.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub bytes: Vec<u8>,
    pub headers: ureq::http::HeaderMap,
}

impl Answer {
    /// A problem's stable code.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    pub fn stdout(&self) -> &str {
        assert_eq!(self.status, 200, "{}", self.body);
        self.body["stdout"].as_str().unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

impl Service {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        Self::start_to(settings, Stdio::inherit())
    }

    /// Its log goes to a file.
    pub fn start_logging(settings: &[(&str, &str)], log: fs::File) -> Self {
        Self::start_to(settings, log.into())
    }

    fn start_to(settings: &[(&str, &str)], log: Stdio) -> Self {
        // Sandboxes of a service that is root run as other users, who must be
        // able to pass through.
        let state = tempfile::Builder::new()
            .prefix("sandboxd-test-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o711))
            .tempdir()
            .unwrap();
        let settings: Vec<_> = settings
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let (process, url) = spawn(&state, &settings, log);
        Self {
            process,
            url,
            state,
            settings,
        }
    }

    /// Starts again on the same state; whoever ran before is gone.
    pub fn restart(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        (self.process, self.url) = spawn(&self.state, &self.settings, Stdio::inherit());
    }

    /// From the next start on.
    pub fn set(&mut self, key: &str, value: &str) {
        self.settings.push((key.to_owned(), value.to_owned()));
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// What a start says that ends with an error.
    pub fn start_that_fails(&self) -> String {
        let output = command(&self.state, &self.settings).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    pub fn terminate(&self) {
        let status = Command::new("kill")
            .args(["-TERM", &self.process.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    pub fn wait(&mut self) -> std::process::ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the service does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Every process below the service: bubblewrap, guests, programs.
    pub fn family(&self) -> Vec<u32> {
        let mut family = vec![self.pid()];
        let mut at = 0;
        while at < family.len() {
            let parent = format!("PPid:\t{}\n", family[at]);
            let is_child = |pid: &u32| {
                fs::read_to_string(format!("/proc/{pid}/status"))
                    .is_ok_and(|status| status.contains(&parent))
            };
            family.extend(pids().filter(is_child));
            at += 1;
        }
        family.split_off(1)
    }

    pub fn state(&self) -> PathBuf {
        self.state.path().to_owned()
    }

    pub fn client(&self) -> Client {
        Client {
            url: self.url.clone(),
            token: None,
        }
    }

    pub fn post(&self, path: &str, body: Value) -> Answer {
        self.client().post(path, body)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.client().send("GET", path, &[], None)
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.client().send("DELETE", path, &[], None)
    }

    pub fn stream(&self, path: &str, body: Value) -> Events {
        self.client().events("POST", path, Some(body))
    }

    /// Runs Python in the session `s`.
    pub fn python(&self, code: &str) -> Answer {
        self.post("/execute", json!({"session_id": "s", "code": code}))
    }

    /// Runs a shell line in the session `s`.
    pub fn bash(&self, command: &str) -> Answer {
        self.post("/bash", json!({"session_id": "s", "command": command}))
    }

    /// The value of a metric, labels included in its name; 0 when it is absent.
    pub fn metric(&self, name: &str) -> f64 {
        let text = String::from_utf8(self.get("/metrics").bytes).unwrap();
        text.lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .map(|value| value.parse::<f64>().unwrap())
            .sum()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(state: &TempDir, settings: &[(String, String)]) -> Command {
    // As `nohup` and a shell's `&` start it, which no sandbox shall notice.
    let mut command = Command::new("sh");
    let begin = "trap '' HUP INT QUIT; exec \"$0\" serve";
    command.args(["-c", begin, env!("CARGO_BIN_EXE_sandboxd")]);
    command.env("SANDBOX_STATE_DIR", state.path());
    command
        .env("SANDBOX_LISTEN", "127.0.0.1:0")
        .env("SANDBOX_LOG", "warn");
    for (key, value) in settings {
        command.env(key, value);
    }
    command
}

fn spawn(state: &TempDir, settings: &[(String, String)], log: Stdio) -> (Child, String) {
    let mut command = command(state, settings);
    let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let stdout = process.stdout.take().unwrap();
    let url = BufReader::new(stdout)
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned))
        .expect("the service says where it listens");
    (process, url)
}

#[derive(Clone)]
pub struct Client {
    pub url: String,
    pub token: Option<String>,
}

impl Client {
    pub fn with_token(&self, token: &str) -> Self {
        Self {
            token: Some(token.to_owned()),
            ..self.clone()
        }
    }

    pub fn post(&self, path: &str, body: Value) -> Answer {
        let headers = [("content-type", "application/json")];
        self.send("POST", path, &headers, Some(body.to_string().as_bytes()))
    }

    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Answer {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(120)))
            .build()
            .into();
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let response = match body {
            Some(body) => agent.run(request.body(body).unwrap()),
            None => agent.run(request.body(()).unwrap()),
        };
        let mut response = response.unwrap();
        let bytes = response
            .body_mut()
            .with_config()
            .limit(256 * 1024 * 1024)
            .read_to_vec()
            .unwrap();
        Answer {
            status: response.status().as_u16(),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            bytes,
            headers: response.headers().clone(),
        }
    }
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: u64,
    pub name: String,
    pub data: Value,
}

/// A stream of server-sent events; dropping it closes the connection.
pub struct Events {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    lines: std::io::Lines<BufReader<ureq::BodyReader<'static>>>,
}

impl Events {
    /// Comments are passed over.
    pub fn next(&mut self) -> Option<Event> {
        let (mut id, mut name, mut data) = (0, String::new(), String::new());
        for line in self.lines.by_ref() {
            let line = line.ok()?;
            match line.split_once(": ") {
                Some(("id", text)) => id = text.parse().unwrap(),
                Some(("event", text)) => text.clone_into(&mut name),
                Some(("data", text)) => data += text,
                _ if line.is_empty() && !name.is_empty() => {
                    let data = serde_json::from_str(&data).unwrap();
                    return Some(Event { id, name, data });
                }
                _ => {}
            }
        }
        None
    }

    /// The next event of this name; those before it are passed over.
    pub fn until(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().expect("the stream goes on");
            if event.name == name {
                return event;
            }
        }
    }

    pub fn rest(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

impl Client {
    /// Asks for a stream of events.
    pub fn events(&self, method: &str, path: &str, body: Option<Value>) -> Events {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(120)))
            .build()
            .into();
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("accept", "text/event-stream")
            .header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let response = match body {
            Some(body) => agent.run(request.body(body.to_string()).unwrap()),
            None => agent.run(request.body(()).unwrap()),
        };
        let (parts, body) = response.unwrap().into_parts();
        Events {
            status: parts.status.as_u16(),
            headers: parts.headers,
            lines: BufReader::new(body.into_reader()).lines(),
        }
    }
}

/// Waits until a condition holds; fails after twenty seconds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether a process exists; one that only waits to be reaped does not.
pub fn is_alive(pid: &u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Processes of the machine whose command line holds `mark`, zombies left out.
pub fn processes_with(mark: &str) -> Vec<u32> {
    pids()
        .filter(|pid| {
            let path = format!("/proc/{pid}/cmdline");
            fs::read(path).is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
        })
        .filter(|pid| *pid != std::process::id())
        .collect()
}

/// Of the services that want tokens.
pub const SECRET: &str = "a secret of at least thirty-two bytes";

/// A token by the service's own command line.
pub fn token(arguments: &[&str]) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_sandboxd"))
        .arg("token")
        .args(arguments)
        .env("SANDBOX_JWT_SECRET", SECRET)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
