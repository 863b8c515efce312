//! One program of a run: its start, its streams, its end.

use std::{collections::BTreeMap, path::Path, time::Duration};

use bytes::Bytes;
use connectrpc::{ConnectError, ErrorCode as Connect, client::CallOptions};
use guest_parts::output::{CHUNK, Kept};
use sandbox_wire::process::{
    __buffa::oneof::{process_event::Event, process_event::data_event, process_input},
    CloseStdinRequest, ProcessConfig, ProcessInput, SendInputRequest, Signal, StartRequest,
};
use tokio::time::{sleep, timeout};

use super::{
    end::{Mark, marked, signal},
    spill::Spill,
    told::{Exit, exit, start_error},
};
use crate::{
    envd::{CALL_LIMIT, Envd, text},
    tools::{Events, next},
    words::{lies, of_call},
};

/// How long a program may take to start.
const START_LIMIT: Duration = Duration::from_secs(15);
/// Input goes in pieces; each waits until the program has read it.
const INPUT_BYTES: usize = 256 * 1024;
/// Longer than any run: a program need not read its input.
const INPUT_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// A stream with nothing to say says so this often, in seconds.
const KEEPALIVE: &str = "50";
/// When it is looked whether a program has ended whose streams have not.
const FIRST_LOOK: Duration = Duration::from_millis(300);
const LAST_LOOK: Duration = Duration::from_secs(5);

/// What is kept of both streams.
pub(super) struct Output {
    pub stdout: Captured,
    pub stderr: Captured,
    /// What a compiler says is no output of the program.
    pub all_to_stderr: bool,
}

pub(super) struct Captured {
    pub kept: Kept,
    pub spill: Option<Spill>,
}

impl Captured {
    async fn take(&mut self, data: &[u8]) {
        for piece in data.chunks(CHUNK) {
            // First: somebody may be looking.
            self.kept.take(piece).await;
            if let Some(spill) = &mut self.spill {
                spill.take(piece).await;
            }
        }
    }
}

pub(super) struct Program {
    events: Events,
    pub pid: u32,
}

pub(super) struct Start<'a> {
    pub argv: &'a [String],
    pub env: &'a BTreeMap<String, String>,
    pub cwd: &'a Path,
    pub mark: &'a Mark,
    pub stdin: bool,
    /// When envd itself shall end it, should this service be gone.
    pub limit: Duration,
}

impl Program {
    pub async fn start(envd: &Envd, start: Start<'_>) -> Result<Self, ConnectError> {
        let program = start.argv.first().map_or("", String::as_str);
        let request = StartRequest {
            process: ProcessConfig {
                cmd: program.to_owned(),
                args: start.argv.iter().skip(1).cloned().collect(),
                envs: start.env.clone().into_iter().collect(),
                cwd: Some(text(start.cwd)?),
                ..Default::default()
            }
            .into(),
            tag: Some(start.mark.tag().to_owned()),
            stdin: Some(start.stdin),
            ..Default::default()
        };
        let options = CallOptions::default()
            .with_timeout(start.limit)
            .with_header("keepalive-ping-interval", KEEPALIVE);
        let starting = async {
            let mut events = envd
                .process
                .start_with_options(request, envd.with_user(options))
                .await?;
            let first = next(&mut events).await?;
            Ok((events, first))
        };
        let (events, first) = timeout(START_LIMIT, starting)
            .await
            .map_err(|_| of_call(&ConnectError::deadline_exceeded("")))?
            .map_err(|cause| start_error(&cause, program))?;
        match first {
            Some(Event::Start(start)) => Ok(Self {
                events,
                pid: start.pid,
            }),
            _ => Err(lies("a program that did not start")),
        }
    }

    /// Takes what it prints until its end.
    pub async fn follow(&mut self, output: &mut Output) -> Result<Exit, ConnectError> {
        loop {
            match next(&mut self.events)
                .await
                .map_err(|cause| of_call(&cause))?
            {
                Some(Event::Data(data)) => match data.output {
                    Some(data_event::Output::Stdout(data)) if !output.all_to_stderr => {
                        output.stdout.take(&data).await;
                    }
                    Some(
                        data_event::Output::Stdout(data)
                        | data_event::Output::Stderr(data)
                        | data_event::Output::Pty(data),
                    ) => output.stderr.take(&data).await,
                    None => {}
                },
                Some(Event::End(end)) => return Ok(exit(&end)),
                Some(Event::Start(_) | Event::Keepalive(_)) => {}
                None => return Err(lies("a program without an end")),
            }
        }
    }
}

/// Gives a program its input and the end of it; dropping it stops that.
pub(super) async fn feed(envd: &Envd, mark: &Mark, input: Bytes) {
    let mut left = input;
    while !left.is_empty() {
        let piece = left.split_to(left.len().min(INPUT_BYTES));
        let request = SendInputRequest {
            process: marked(mark).into(),
            input: ProcessInput {
                input: Some(process_input::Input::Stdin(piece.to_vec())),
                ..Default::default()
            }
            .into(),
            ..Default::default()
        };
        let call = envd
            .process
            .send_input_with_options(request, envd.options(INPUT_LIMIT));
        // A program need not read its input, nor live as long.
        if call.await.is_err() {
            return;
        }
    }
    let request = CloseStdinRequest {
        process: marked(mark).into(),
        ..Default::default()
    };
    let call = envd
        .process
        .close_stdin_with_options(request, envd.options(CALL_LIMIT));
    if let Err(cause) = call.await
        && cause.code == Connect::Unimplemented
    {
        tracing::warn!("envd is too old to end a program's input");
    }
}

/// Sees to it that a program's end is told when only its children hold its streams.
///
/// envd waits for the streams' end before it waits for the program; so a program that has
/// ended is a zombie meanwhile. A signal to it makes envd look.
pub(super) async fn look_for_end(envd: &Envd, mark: &Mark, pid: u32) {
    let stat = format!("/proc/{pid}/stat");
    let mut wait = FIRST_LOOK;
    loop {
        sleep(wait).await;
        wait = (wait * 2).min(LAST_LOOK);
        match envd.tool(&["cat", &stat], CALL_LIMIT).await {
            Ok(said) if said.code == 127 => break,
            Ok(said) if is_zombie(&said.stdout) => {
                signal(envd, marked(mark), Signal::SIGNAL_SIGTERM).await;
            }
            _ => {}
        }
    }
    std::future::pending::<()>().await;
}

/// The state in a line as in proc_pid_stat(5), behind the name in parentheses.
fn is_zombie(stat: &[u8]) -> bool {
    let stat = String::from_utf8_lossy(stat);
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zombie_is_known_whatever_its_name() {
        assert!(is_zombie(b"12 (a) R (b) Z 1 12 12"));
        assert!(!is_zombie(b"12 (a) Z (b) S 1 12 12"));
        assert!(!is_zombie(b""));
    }
}
