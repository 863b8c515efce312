//! One program of a run: its start, its streams, its end.

use std::{collections::BTreeMap, path::Path, time::Duration};

use bytes::Bytes;
use connectrpc::{ConnectError, ErrorCode as Connect, client::CallOptions};
use guest_parts::{
    error::error,
    output::{CHUNK, Kept},
};
use sandbox_core::ErrorCode;
use sandbox_wire::process::{
    __buffa::oneof::{process_event::Event, process_event::data_event, process_input},
    CloseStdinRequest, ProcessConfig, ProcessInput, SendInputRequest, Signal, StartRequest,
    process_event::EndEvent,
};
use tokio::time::{sleep, timeout};

use super::{
    end::{Mark, marked, signal},
    spill::Spill,
};
use crate::{
    envd::{CALL_LIMIT, Envd, text},
    tools::{Events, next},
    words::{attached, lies, of_call},
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub code: i32,
    pub signal: i32,
}

/// What is said of a program whose end nobody saw.
pub(super) const KILLED: Exit = Exit {
    code: -1,
    signal: 9,
};

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

/// What a wait status is called: by Go, and by our guest where Go has other words.
const SIGNALS: [(&str, i32); 15] = [
    ("hangup", 1),
    ("interrupt", 2),
    ("quit", 3),
    ("illegal instruction", 4),
    ("trace/breakpoint trap", 5),
    ("aborted", 6),
    ("bus error", 7),
    ("floating point exception", 8),
    ("killed", 9),
    ("user defined signal 1", 10),
    ("segmentation fault", 11),
    ("user defined signal 2", 12),
    ("broken pipe", 13),
    ("alarm clock", 14),
    ("terminated", 15),
];

fn exit(end: &EndEvent) -> Exit {
    let named = end.status.strip_prefix("signal: ").map(|name| {
        let name = name.trim_end_matches(" (core dumped)").trim();
        let known = SIGNALS.iter().find(|(known, _)| *known == name);
        let number = || {
            let number = name.strip_prefix("signal ").unwrap_or(name);
            number.parse().ok().filter(|it| (1..=64).contains(it))
        };
        known.map(|(_, signal)| *signal).or_else(number)
    });
    match named {
        // An end by a signal that has no name is an end by a signal.
        Some(signal) => Exit {
            code: -1,
            signal: signal.unwrap_or(9),
        },
        None if !end.exited && end.exit_code < 0 => KILLED,
        None => Exit {
            code: end.exit_code.clamp(0, 255),
            signal: 0,
        },
    }
}

/// Why a program could not be started.
pub(crate) fn start_error(cause: &ConnectError, program: &str) -> ConnectError {
    let not_installed = || {
        error(
            ErrorCode::NotInstalled,
            format!("`{program}` is not installed in the sandbox"),
        )
    };
    match attached(cause) {
        Some(ErrorCode::NotInstalled | ErrorCode::NotFound) => return not_installed(),
        Some(ErrorCode::PermissionDenied) => return not_executable(program),
        Some(ErrorCode::InvalidPath) => {
            return error(
                ErrorCode::InvalidPath,
                "the working directory does not exist",
            );
        }
        Some(code @ (ErrorCode::InvalidRequest | ErrorCode::SandboxExhausted)) => {
            return error(code, format!("`{program}` could not be started"));
        }
        _ => {}
    }
    let words = cause.message.as_deref().unwrap_or_default().to_lowercase();
    let ends = |with: &[&str]| with.iter().any(|it| words.trim_end().ends_with(it));
    match cause.code {
        Connect::NotFound => not_installed(),
        Connect::InvalidArgument if words.starts_with("cwd ") => error(
            ErrorCode::InvalidPath,
            "the working directory does not exist",
        ),
        Connect::InvalidArgument
            if ends(&[
                "executable file not found in $path",
                "no such file or directory",
            ]) =>
        {
            not_installed()
        }
        Connect::InvalidArgument if ends(&["permission denied"]) => not_executable(program),
        Connect::InvalidArgument if ends(&["argument list too long"]) => error(
            ErrorCode::InvalidRequest,
            "arguments and environment are too long for one program",
        ),
        Connect::InvalidArgument if ends(&["invalid argument"]) => error(
            ErrorCode::InvalidRequest,
            "an argument or a variable has a NUL byte",
        ),
        Connect::InvalidArgument | Connect::Internal
            if ends(&["resource temporarily unavailable", "cannot allocate memory"]) =>
        {
            error(
                ErrorCode::SandboxExhausted,
                "the sandbox has no memory or process left to start a program",
            )
        }
        _ => of_call(cause),
    }
}

fn not_executable(program: &str) -> ConnectError {
    error(
        ErrorCode::PermissionDenied,
        format!("`{program}` may not be executed"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_read_in_everybodys_words() {
        let end = |exit_code, exited, status: &str| {
            let end = exit(&EndEvent {
                exit_code,
                exited,
                status: status.to_owned(),
                ..Default::default()
            });
            (end.code, end.signal)
        };
        assert_eq!(end(0, true, "exit status 0"), (0, 0));
        assert_eq!(end(3, true, "exit status 3"), (3, 0));
        assert_eq!(end(-1, false, "signal: killed"), (-1, 9));
        assert_eq!(
            end(-1, false, "signal: segmentation fault (core dumped)"),
            (-1, 11)
        );
        assert_eq!(end(-1, false, "signal: 31"), (-1, 31));
        assert_eq!(end(-1, false, "signal: signal 34"), (-1, 34));
        assert_eq!(end(-1, false, "signal: 99999"), (-1, 9));
        assert_eq!(end(-1, false, ""), (-1, 9));
        assert_eq!(end(70_000, true, "exit status 70000"), (255, 0));
    }

    #[test]
    fn a_zombie_is_known_whatever_its_name() {
        assert!(is_zombie(b"12 (a) R (b) Z 1 12 12"));
        assert!(!is_zombie(b"12 (a) Z (b) S 1 12 12"));
        assert!(!is_zombie(b""));
    }

    #[test]
    fn why_a_program_did_not_start_has_a_stable_code() {
        for (words, wanted) in [
            ("cwd '/none' does not exist", ErrorCode::InvalidPath),
            (
                "error starting process 'x': fork/exec /x: no such file or directory",
                ErrorCode::NotInstalled,
            ),
            (
                "error starting process 'x': exec: \"x\": executable file not found in $PATH",
                ErrorCode::NotInstalled,
            ),
            (
                "error starting process 'x': fork/exec /x: permission denied",
                ErrorCode::PermissionDenied,
            ),
            (
                "error starting process 'x': fork/exec /bin/sh: argument list too long",
                ErrorCode::InvalidRequest,
            ),
        ] {
            let found = start_error(&ConnectError::invalid_argument(words), "x");
            assert_eq!(attached(&found), Some(wanted), "{words}");
        }
    }
}
