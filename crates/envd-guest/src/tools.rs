//! Programs of the sandbox that do what envd has no call for.
//!
//! Each is a program with arguments. Where a shell is needed, its script is one of the
//! constants here, and what came from a caller is an argument of it and never its text.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use connectrpc::{ConnectError, client::ServerStream};
use guest_parts::error::error;
use http::StatusCode;
use sandbox_core::ErrorCode;
use sandbox_wire::process::{
    __buffa::{
        oneof::{process_event::Event, process_event::data_event},
        view::StartResponseView,
    },
    ProcessConfig, StartRequest,
};
use tokio::time::timeout;

use crate::{
    envd::{CALL_LIMIT, Envd, not_found, text},
    transport::Body,
    words::{lies, of_call, of_path, of_status},
};

/// Of a file within the sandbox, whose disk may be slow.
const COPY_LIMIT: Duration = Duration::from_secs(120);
/// Of each stream; more of what a tool prints is nobody's interest.
const MAX_OUTPUT: usize = 64 * 1024;
/// Arguments of one program; the kernel takes 2 MiB.
const MAX_ARGUMENT_BYTES: usize = 256 * 1024;

/// $1 is appended to $2.
const APPEND: &str = "exec cat -- \"$1\" >>\"$2\"";
/// Links of pairs: what one leads to, and where it is.
const LINK: &str = "while [ $# -gt 1 ]; do ln -s -- \"$1\" \"$2\" || exit 1; shift 2; done";

pub(crate) type Events = ServerStream<Body, StartResponseView<'static>>;

/// What a program said, and how it ended.
#[derive(Default)]
pub(crate) struct Said {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Envd {
    /// Runs a short program without input to its end; envd ends it when it is late.
    pub(crate) async fn tool(&self, argv: &[&str], limit: Duration) -> Result<Said, ConnectError> {
        let request = StartRequest {
            process: ProcessConfig {
                cmd: argv.first().copied().unwrap_or_default().to_owned(),
                args: argv.iter().skip(1).map(|word| (*word).to_owned()).collect(),
                cwd: Some("/".to_owned()),
                ..Default::default()
            }
            .into(),
            stdin: Some(false),
            ..Default::default()
        };
        let running = async {
            let mut events = self
                .process
                .start_with_options(request, self.options(limit))
                .await?;
            let mut said = Said::default();
            while let Some(event) = next(&mut events).await? {
                match event {
                    Event::Data(data) => match data.output {
                        Some(data_event::Output::Stdout(data)) => keep(&mut said.stdout, &data),
                        Some(data_event::Output::Stderr(data)) => keep(&mut said.stderr, &data),
                        _ => {}
                    },
                    Event::End(end) => {
                        said.code = end.exit_code;
                        return Ok(said);
                    }
                    _ => {}
                }
            }
            Err(lies("a program without an end"))
        };
        timeout(limit, running)
            .await
            .unwrap_or_else(|_| Err(of_call(&ConnectError::deadline_exceeded(""))))
    }

    /// One that must end well; `what` it does is told when it does not.
    async fn do_with(
        &self,
        argv: &[&str],
        limit: Duration,
        what: &str,
    ) -> Result<(), ConnectError> {
        let said = self.tool(argv, limit).await;
        let said = said.map_err(|cause| of_path(&cause, what))?;
        match said.code {
            0 => Ok(()),
            _ => Err(refused(&said, what)),
        }
    }

    pub(crate) async fn set_mode(
        &self,
        paths: &[&Path],
        mode: u32,
        shown: &str,
    ) -> Result<(), ConnectError> {
        let mode = format!("{mode:o}");
        for some in in_parts(&texts(paths)?) {
            let argv = [&["chmod", &mode, "--"], some.as_slice()].concat();
            self.do_with(&argv, CALL_LIMIT, shown).await?;
        }
        Ok(())
    }

    /// A folder that must be empty.
    pub(crate) async fn remove_folder(&self, path: &Path, shown: &str) -> Result<(), ConnectError> {
        let argv = ["rmdir", "--", &text(path)?];
        self.do_with(&argv, CALL_LIMIT, shown).await
    }

    pub(crate) async fn append(
        &self,
        source: &Path,
        to: &Path,
        shown: &str,
    ) -> Result<(), ConnectError> {
        let argv = ["/bin/sh", "-c", APPEND, "sh", &text(source)?, &text(to)?];
        self.do_with(&argv, CALL_LIMIT, shown).await
    }

    /// Where a link leads that leads to nothing, whose folder must be there.
    pub(crate) async fn read_link(
        &self,
        path: &Path,
        shown: &str,
    ) -> Result<PathBuf, ConnectError> {
        let argv = ["readlink", "-v", "-f", "--", &text(path)?];
        let said = self.tool(&argv, CALL_LIMIT).await;
        let said = said.map_err(|cause| of_path(&cause, shown))?;
        let target = String::from_utf8_lossy(&said.stdout);
        let target = Path::new(target.trim_end_matches('\n'));
        match (said.code, target.is_absolute()) {
            (0, true) if target != path => Ok(target.to_owned()),
            (0, _) => Err(not_found(shown)),
            _ => Err(refused(&said, shown)),
        }
    }

    pub(crate) async fn copy(
        &self,
        source: &Path,
        to: &Path,
        shown: &str,
    ) -> Result<(), ConnectError> {
        let folder = to.parent().unwrap_or(Path::new("/"));
        let make = ["mkdir", "-p", "--", &text(folder)?];
        self.do_with(&make, CALL_LIMIT, shown).await?;
        let argv = ["cp", "--", &text(source)?, &text(to)?];
        self.do_with(&argv, COPY_LIMIT, shown).await
    }

    /// Makes links: what each leads to, and where it is.
    pub(crate) async fn link(
        &self,
        links: &[(&Path, &Path)],
        shown: &str,
    ) -> Result<(), ConnectError> {
        let words = links.iter().flat_map(|(target, place)| [*target, *place]);
        for some in in_parts(&texts(&words.collect::<Vec<_>>())?) {
            let argv = [&["/bin/sh", "-c", LINK, "sh"], some.as_slice()].concat();
            self.do_with(&argv, CALL_LIMIT, shown).await?;
        }
        Ok(())
    }
}

/// What a program that did not do it says why.
fn refused(said: &Said, what: &str) -> ConnectError {
    let words = String::from_utf8_lossy(&said.stderr);
    of_status(StatusCode::INTERNAL_SERVER_ERROR, words.trim_end(), what)
}

fn texts(paths: &[&Path]) -> Result<Vec<String>, ConnectError> {
    paths.iter().map(|path| text(path)).collect()
}

/// As many as one program takes; pairs stay together.
fn in_parts(words: &[String]) -> Vec<Vec<&str>> {
    let mut parts: Vec<Vec<&str>> = Vec::new();
    let mut bytes = usize::MAX;
    for pair in words.chunks(2) {
        let more: usize = pair.iter().map(|word| word.len() + 1).sum();
        bytes = bytes.saturating_add(more);
        if bytes > MAX_ARGUMENT_BYTES {
            parts.push(Vec::new());
            bytes = more;
        }
        if let Some(part) = parts.last_mut() {
            part.extend(pair.iter().map(String::as_str));
        }
    }
    parts
}

fn keep(kept: &mut Vec<u8>, data: &[u8]) {
    let room = MAX_OUTPUT.saturating_sub(kept.len());
    kept.extend_from_slice(&data[..data.len().min(room)]);
}

/// The next event that says something; `None` at the stream's end.
pub(crate) async fn next(events: &mut Events) -> Result<Option<Event>, ConnectError> {
    loop {
        let Some(message) = events.message().await? else {
            return Ok(None);
        };
        let event = message.to_owned_message().event.into_option();
        match event.and_then(|event| event.event) {
            Some(Event::Keepalive(_)) => {}
            Some(event) => return Ok(Some(event)),
            None => {
                return Err(error(
                    ErrorCode::SandboxLost,
                    "the sandbox's envd does not keep to its contract",
                ));
            }
        }
    }
}
