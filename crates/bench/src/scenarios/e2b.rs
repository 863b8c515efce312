//! E2B's own SDK, and a command through the E2B API beside the same by our own route.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::{
    Method,
    header::{HeaderName, HeaderValue},
};
use serde_json::{Value, json};

use crate::{
    Result,
    bench::Bench,
    client::Client,
    results::Row,
    turns::Turns,
    work::Work,
    yardsticks::{Sdk, in_form},
};

const FAMILY: &str = "the E2B API";

pub const SDK: &str = "`Sandbox.create`, `commands.run(\"true\")`, `kill` by the Python SDK";
pub const COMMAND: &str = "`bash -c true` by `process.Process/Start`";
pub const BASH: &str = "the same by `/bash`";

pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let service = bench.service(&[("SANDBOX_E2B_LISTEN", "127.0.0.1:0")])?;
    let url = service.e2b_url().to_owned();
    let rounds = bench.rounds(100);
    let mut turns = Turns::new(FAMILY);
    let sdk = Sdk::start(&bench.tools, &bench.program("print.py"), &url);
    turns.ours(SDK, bench.rounds(50), sdk);
    turns.ours(COMMAND, rounds, Command::new(&url).await);
    turns.yardstick(BASH, rounds, service.bash("living", "true").await);
    Ok(turns.run().await)
}

/// A command in a sandbox that lives, as the SDKs send it.
struct Command {
    client: Client,
    body: Bytes,
}

impl Command {
    async fn new(url: &str) -> Result<Self> {
        let mut client = Client::connect(url).await?;
        let wanted = json!({"templateID": "base", "timeout": 3600});
        let made = client.post("/v2/sandboxes", &wanted).await?;
        let made: Value = serde_json::from_slice(&made.body)?;
        for (name, value) in [
            ("e2b-sandbox-id", made["sandboxID"].as_str()),
            ("e2b-sandbox-port", Some("49983")),
            ("x-access-token", made["envdAccessToken"].as_str()),
            ("content-type", Some("application/connect+json")),
            ("connect-protocol-version", Some("1")),
        ] {
            let value = value.ok_or_else(|| format!("no value for `{name}`: {made}"))?;
            let value = HeaderValue::from_str(value)?;
            client.headers.insert(HeaderName::from_static(name), value);
        }
        let config = json!({"cmd": "/bin/bash", "args": ["-c", "true"]});
        Ok(Self {
            client,
            body: in_form(&json!({"process": config, "stdin": false}))?,
        })
    }
}

#[async_trait(?Send)]
impl Work for Command {
    async fn once(&mut self) -> Result<Duration> {
        let path = "/process.Process/Start";
        let answer = self
            .client
            .ask(Method::POST, path, self.body.clone())
            .await?;
        let said = String::from_utf8_lossy(&answer.body);
        match said.contains("\"exit status 0\"") {
            true => Ok(answer.took),
            false => Err(format!("not what was asked for: {said:.300}").into()),
        }
    }
}
