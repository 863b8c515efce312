//! Processes that outlive the call that started them.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use connectrpc::client::{CallOptions, ServerStream};
use hyper::body::Incoming;
use sandbox_core::{Error, ErrorCode, Result};
use sandbox_wire::process::{
    self as wire,
    __buffa::{
        oneof::{process_event::Event, process_event::data_event, process_input, process_selector},
        view::StartResponseView,
    },
};

use crate::{GuestClient, error::from_guest};

/// For calls that should take milliseconds.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// How long a program may take to read what is written to it.
const INPUT_LIMIT: Duration = Duration::from_secs(30);

/// A process to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRequest {
    /// What it is called in later calls; nobody else's.
    pub tag: String,
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Relative to the workspace, which is the default.
    pub cwd: Option<String>,
    /// Columns and rows of the terminal that it shall have.
    pub terminal: Option<(u16, u16)>,
}

/// What happens to a process, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// A terminal has this one stream.
    Stdout(Bytes),
    Stderr(Bytes),
    Ended {
        /// 128+N for a signal N.
        exit_code: i32,
        signal: Option<u32>,
    },
}

/// The events of a process; it goes on when this is dropped.
pub struct ProcessStream {
    pub pid: u32,
    events: ServerStream<Incoming, StartResponseView<'static>>,
}

impl GuestClient {
    /// Starts a process; an error says why it could not be started.
    pub async fn start_process(&self, request: ProcessRequest) -> Result<ProcessStream> {
        let mut argv = request.argv.into_iter();
        let message = wire::StartRequest {
            process: wire::ProcessConfig {
                cmd: argv.next().unwrap_or_default(),
                args: argv.collect(),
                envs: request.env.into_iter().collect(),
                cwd: request.cwd,
                ..Default::default()
            }
            .into(),
            pty: request.terminal.map(|size| pty(size.0, size.1)).into(),
            tag: Some(request.tag),
            stdin: Some(true),
            ..Default::default()
        };
        let call = async {
            let mut events = self.process.start(message).await.map_err(from_guest)?;
            let first = events.message().await.map_err(from_guest)?;
            Ok((events, first))
        };
        let (events, first) = tokio::time::timeout(CALL_LIMIT, call)
            .await
            .map_err(|_| late("the process did not start in time"))??;
        let event = first.and_then(|message| message.to_owned_message().event.into_option());
        match event.and_then(|event| event.event) {
            Some(Event::Start(start)) => Ok(ProcessStream {
                pid: start.pid,
                events,
            }),
            _ => Err(broken("a process that did not start")),
        }
    }

    /// Gives a process input; waits until it has taken it.
    pub async fn send_input(&self, tag: &str, data: Bytes, terminal: bool) -> Result<()> {
        let data = data.into();
        let input = if terminal {
            process_input::Input::Pty(data)
        } else {
            process_input::Input::Stdin(data)
        };
        let message = wire::SendInputRequest {
            process: selector(tag).into(),
            input: wire::ProcessInput {
                input: Some(input),
                ..Default::default()
            }
            .into(),
            ..Default::default()
        };
        let options = CallOptions::default().with_timeout(INPUT_LIMIT);
        self.process
            .send_input_with_options(message, options)
            .await
            .map(|_| ())
            .map_err(of_process)
    }

    /// Ends the input of a process that has no terminal.
    pub async fn close_input(&self, tag: &str) -> Result<()> {
        let message = wire::CloseStdinRequest {
            process: selector(tag).into(),
            ..Default::default()
        };
        self.process
            .close_stdin_with_options(message, quick())
            .await
            .map(|_| ())
            .map_err(of_process)
    }

    pub async fn send_signal(&self, tag: &str, signal: u32) -> Result<()> {
        let message = wire::SendSignalRequest {
            process: selector(tag).into(),
            signal: i32::try_from(signal).unwrap_or_default().into(),
            ..Default::default()
        };
        self.process
            .send_signal_with_options(message, quick())
            .await
            .map(|_| ())
            .map_err(of_process)
    }

    pub async fn resize_terminal(&self, tag: &str, columns: u16, rows: u16) -> Result<()> {
        let message = wire::UpdateRequest {
            process: selector(tag).into(),
            pty: Some(pty(columns, rows)).into(),
            ..Default::default()
        };
        self.process
            .update_with_options(message, quick())
            .await
            .map(|_| ())
            .map_err(of_process)
    }
}

impl ProcessStream {
    /// The next event; nothing comes after the end.
    pub async fn next(&mut self) -> Result<ProcessEvent> {
        loop {
            let message = self.events.message().await.map_err(from_guest)?;
            let event = message
                .and_then(|message| message.to_owned_message().event.into_option())
                .and_then(|event| event.event);
            match event {
                Some(Event::Data(data)) => match data.output {
                    Some(data_event::Output::Stdout(data) | data_event::Output::Pty(data)) => {
                        return Ok(ProcessEvent::Stdout(data.into()));
                    }
                    Some(data_event::Output::Stderr(data)) => {
                        return Ok(ProcessEvent::Stderr(data.into()));
                    }
                    None => {}
                },
                Some(Event::End(end)) => return Ok(ended(&end)),
                Some(Event::Keepalive(_)) => {}
                Some(Event::Start(_)) | None => return Err(broken("a process without an end")),
            }
        }
    }
}

/// The contract words a signal; it has no number for it.
fn ended(end: &wire::process_event::EndEvent) -> ProcessEvent {
    let signal = end
        .status
        .strip_prefix("signal: ")
        .map(|name| match name {
            "killed" => 9,
            "terminated" => 15,
            "interrupt" => 2,
            number => number.parse().unwrap_or(9),
        })
        .filter(|signal| (1..=64).contains(signal));
    ProcessEvent::Ended {
        exit_code: match signal {
            Some(signal) => 128 + i32::try_from(signal).unwrap_or(0),
            None => end.exit_code,
        },
        signal,
    }
}

fn pty(columns: u16, rows: u16) -> wire::PTY {
    wire::PTY {
        size: wire::pty::Size {
            cols: columns.into(),
            rows: rows.into(),
            ..Default::default()
        }
        .into(),
        ..Default::default()
    }
}

fn selector(tag: &str) -> wire::ProcessSelector {
    wire::ProcessSelector {
        selector: Some(process_selector::Selector::Tag(tag.to_owned())),
        ..Default::default()
    }
}

fn quick() -> CallOptions {
    CallOptions::default().with_timeout(CALL_LIMIT)
}

/// A process that is not there any more has ended.
fn of_process(error: connectrpc::ConnectError) -> Error {
    let error = from_guest(error);
    match error.code() {
        ErrorCode::NotFound => Error::new(ErrorCode::ProcessEnded, "the process has ended"),
        ErrorCode::Timeout => late("the process did not take its input in time"),
        _ => error,
    }
}

fn late(what: &str) -> Error {
    Error::new(ErrorCode::Timeout, what)
}

fn broken(what: &str) -> Error {
    Error::new(ErrorCode::SandboxLost, "the sandbox ended during the call")
        .with_source(format!("the guest sent {what}"))
}
