//! Our guest in a sandbox of E2B: put there, started, found again, ended.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use sandbox_core::{Error, Result};
use sandbox_wire::{listen::LISTENING, process::Signal};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use crate::{
    config::E2bConfig,
    envd::{Command, Envd, Output, Start},
    error::{strange, unavailable},
    secret::Secret,
};

/// The name under which programs know the workspace, as in every sandbox.
pub(crate) const WORKSPACE: &str = "/workspace";
/// Where the guest listens; no service that E2B's templates have is there.
pub(crate) const PORT: u16 = 49900;
const TAG: &str = "sandboxd-guest-";
/// Of the hash, in the program's name.
const VERSION_CHARS: usize = 16;
/// How long a guest may take to end with all that it started.
const END_LIMIT: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(30);
/// Kept of what a guest complains about.
const COMPLAINT_BYTES: usize = 2000;

/// The program, and what it is called in a sandbox.
pub(crate) struct Program {
    data: Bytes,
    path: String,
}

impl Program {
    pub fn new(data: Bytes) -> Self {
        let hash: String = Sha256::digest(&data)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            path: format!("/tmp/.sandboxd-guest-{}", &hash[..VERSION_CHARS]),
            data,
        }
    }

    /// Sees to it that the program and the workspace are there.
    pub async fn install(&self, envd: &Envd) -> Result<()> {
        let (size, workspace) = tokio::join!(envd.size(&self.path), make_workspace(envd));
        workspace?;
        // What programs of the sandbox make of it can only harm their own.
        if size?.is_some_and(|size| usize::try_from(size) == Ok(self.data.len())) {
            return Ok(());
        }
        envd.upload(&self.path, &self.data).await?;
        match envd.run(&["chmod", "755", &self.path], None).await? {
            (0, _) => Ok(()),
            (code, _) => Err(strange(
                "the guest's start",
                format!("chmod ended with {code}"),
            )),
        }
    }

    /// Starts it as the sandbox's usual user, whose programs are its own.
    async fn start(
        &self,
        envd: &Envd,
        config: &E2bConfig,
        mode: &[String],
    ) -> Result<(Command, String)> {
        let tag = format!("{TAG}{}", uuid::Uuid::new_v4().simple());
        let mut argv = vec![self.path.clone()];
        argv.extend_from_slice(mode);
        argv.extend(options(config));
        let start = Start {
            argv,
            env: BTreeMap::from([("HOME".to_owned(), WORKSPACE.to_owned())]),
            tag: Some(&tag),
            stdin: true,
            user: None,
        };
        Ok((envd.start(start).await?, tag))
    }

    /// Starts it so that it listens for whoever has the token.
    pub async fn listen(&self, envd: &Envd, config: &E2bConfig, token: &Secret) -> Result<()> {
        let mode = ["listen", "--port", &PORT.to_string()].map(str::to_owned);
        let (mut command, tag) = self.start(envd, config, &mode).await?;
        // Not an argument and not in its environment: others can see those.
        let line = Bytes::from(format!("{}\n", token.expose()));
        envd.send_input(&tag, line).await?;
        let mut said = Vec::new();
        let mut complaint = Vec::new();
        let listening = async {
            while said.len() < LISTENING.len() {
                match command.next().await? {
                    Output::Stdout(part) => said.extend_from_slice(&part),
                    Output::Stderr(part) => {
                        let room = COMPLAINT_BYTES.saturating_sub(complaint.len());
                        complaint.extend_from_slice(&part[..part.len().min(room)]);
                    }
                    Output::Ended(code) => {
                        let complaint = String::from_utf8_lossy(&complaint).into_owned();
                        return Err(strange(
                            "the guest's start",
                            format!("it ended with {code}: {complaint}"),
                        ));
                    }
                }
            }
            Ok(())
        };
        timeout(config.start_timeout, listening)
            .await
            .map_err(|_| unavailable("the guest did not listen in time"))?
    }

    /// Starts it with its input and output as the connection.
    pub async fn attach(&self, envd: &Envd, config: &E2bConfig) -> Result<(Command, String)> {
        self.start(envd, config, &["serve".to_owned()]).await
    }
}

fn options(config: &E2bConfig) -> Vec<String> {
    let limits = &config.limits;
    let mut options = vec![
        "--workspace".to_owned(),
        WORKSPACE.to_owned(),
        format!("--alone-seconds={}", config.life.as_secs().max(60)),
        format!("--disk-bytes={}", limits.disk.bytes()),
        format!("--file-bytes={}", limits.disk.bytes()),
        format!("--nproc={}", limits.pids),
    ];
    if let Some(modules) = &config.python_preload {
        options.push(format!("--python-preload={}", modules.join(",")));
    }
    options
}

/// A template may lack it, and its usual user may not be one who makes it.
pub(crate) async fn make_workspace(envd: &Envd) -> Result<()> {
    if envd.make_folder(WORKSPACE).await? {
        return Ok(());
    }
    let (code, name) = envd.run(&["id", "-un"], None).await?;
    let name = String::from_utf8_lossy(&name).trim().to_owned();
    if code == 0 && !name.is_empty() {
        let install = ["install", "-d", "-m", "755", "-o", &name, "--", WORKSPACE];
        if let Ok((0, _)) = envd.run(&install, Some("root")).await {
            return Ok(());
        }
    }
    Err(unavailable(
        "the E2B template has no /workspace, and its user cannot make one",
    ))
}

/// Ends every guest of ours in the sandbox, with all that they started.
pub(crate) async fn end_all(envd: &Envd) -> Result<()> {
    let until = Instant::now() + END_LIMIT;
    let mut signal = Signal::SIGNAL_SIGTERM;
    loop {
        let tags = envd.tags().await?;
        let ours: Vec<_> = tags.iter().filter(|tag| tag.starts_with(TAG)).collect();
        if ours.is_empty() {
            return Ok(());
        }
        if Instant::now() > until {
            if signal == Signal::SIGNAL_SIGKILL {
                return Err(Error::internal("a guest does not end"));
            }
            warn!("a guest does not end, and is killed");
            signal = Signal::SIGNAL_SIGKILL;
        }
        for tag in ours {
            envd.signal(tag, signal).await?;
        }
        sleep(LOOK_AGAIN).await;
    }
}
