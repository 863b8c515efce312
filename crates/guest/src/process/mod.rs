//! The service `process.Process`: processes that outlive the call that started them.

mod followed;
mod terminal;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use connectrpc::{
    ConnectError, InboundStream, RequestContext, Response, ServiceRequest, ServiceResult,
    ServiceStream,
};
use followed::{Followed, Followers, Input, Output, ProgramEnds, Streams};
use futures::{Stream, StreamExt as _, stream};
use rustix::process::Signal as OsSignal;
use sandbox_core::ErrorCode;
use sandbox_wire::process::{
    __buffa::oneof::{
        process_event::Event, process_input, process_selector::Selector, stream_input_request,
    },
    CloseStdinRequest, CloseStdinResponse, ConnectRequest, ConnectResponse, ListRequest,
    ListResponse, PTY, Process, ProcessEvent, ProcessInfo, ProcessInput, ProcessSelector,
    SendInputRequest, SendInputResponse, SendSignalRequest, SendSignalResponse, StartRequest,
    StartResponse, StreamInputRequest, StreamInputResponse, UpdateRequest, UpdateResponse,
    process_event::KeepAlive,
};
use terminal::Terminal;

use crate::{
    error::error,
    run::{Start, Starter, input_pipe, null_input, output_pipe},
    state::Guest,
    users,
};

/// Ended processes whose end can still be asked for.
const ENDED_KEPT: usize = 64;
const KEEPALIVE_HEADER: &str = "keepalive-ping-interval";
const KEEPALIVE_DEFAULT: Duration = Duration::from_secs(90);

pub(crate) struct ProcessService {
    guest: Arc<Guest>,
    starter: Starter,
    processes: Mutex<Vec<Arc<Followed>>>,
}

impl ProcessService {
    pub fn new(guest: Arc<Guest>, starter: Starter) -> Self {
        Self {
            guest,
            starter,
            processes: Mutex::default(),
        }
    }

    fn find(&self, selector: Option<&ProcessSelector>) -> Result<Arc<Followed>, ConnectError> {
        let selector = selector
            .and_then(|selector| selector.selector.as_ref())
            .ok_or_else(|| ConnectError::invalid_argument("no process is named"))?;
        let processes = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        processes
            .iter()
            .rev()
            .find(|process| match selector {
                Selector::Pid(pid) => process.pid == *pid,
                Selector::Tag(tag) => process.tag.as_ref() == Some(tag),
            })
            .cloned()
            .ok_or_else(|| ConnectError::not_found("there is no such process"))
    }

    fn find_running(
        &self,
        selector: Option<&ProcessSelector>,
    ) -> Result<Arc<Followed>, ConnectError> {
        let process = self.find(selector)?;
        if process.has_ended() {
            return Err(ConnectError::not_found("the process has ended"));
        }
        Ok(process)
    }

    fn keep(&self, process: Arc<Followed>) {
        let mut processes = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut ended = processes.iter().filter(|p| p.has_ended()).count();
        processes.retain(|process| {
            let drop = ended > ENDED_KEPT && process.has_ended();
            ended -= usize::from(drop);
            !drop
        });
        processes.push(process);
    }

    async fn start_process(
        &self,
        request: StartRequest,
        timeout: Option<Duration>,
    ) -> Result<(Arc<Followed>, Followers), ConnectError> {
        let config = request
            .process
            .into_option()
            .filter(|config| !config.cmd.is_empty())
            .ok_or_else(|| ConnectError::invalid_argument("no command is given"))?;
        let pty = request.pty.into_option();
        let (ends, streams) = streams(pty.as_ref(), request.stdin.unwrap_or(true))
            .map_err(|cause| error(ErrorCode::SandboxExhausted, cause.to_string()))?;
        let mut env = self.guest.env();
        for name in ["USER", "LOGNAME"] {
            env.entry(name.to_owned())
                .or_insert_with(|| users::own_name().to_owned());
        }
        env.extend(config.envs.clone());
        let mut argv = vec![config.cmd.clone()];
        argv.extend(config.args.clone());
        let cwd = self
            .guest
            .place(config.cwd.as_deref().unwrap_or_default())?;
        let running = self
            .starter
            .start(Start {
                argv,
                env,
                cwd,
                stdin: ends.stdin,
                stdout: ends.stdout,
                stderr: ends.stderr,
                terminal: pty.is_some(),
            })
            .await?;
        let (process, followers) = Followed::new(running, config, request.tag, streams, timeout);
        self.keep(Arc::clone(&process));
        Ok((process, followers))
    }
}

fn streams(pty: Option<&PTY>, stdin: bool) -> std::io::Result<(ProgramEnds, Streams)> {
    if let Some(pty) = pty {
        let (cols, rows) = pty
            .size
            .as_option()
            .map_or((80, 24), |size| (size.cols, size.rows));
        let size = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
        let (terminal, ends) = Terminal::open(size(cols), size(rows))?;
        let program = ProgramEnds {
            stdin: ends.program.try_clone()?,
            stdout: ends.program.try_clone()?,
            stderr: ends.program,
        };
        let streams = Streams {
            input: Input::Terminal(ends.write),
            output: Output::Terminal(ends.read, terminal),
        };
        return Ok((program, streams));
    }
    let (stdout, from_stdout) = output_pipe()?;
    let (stderr, from_stderr) = output_pipe()?;
    let (stdin, input) = if stdin {
        let (theirs, ours) = input_pipe()?;
        (theirs, Input::Pipe(ours))
    } else {
        (null_input()?, Input::None)
    };
    let program = ProgramEnds {
        stdin,
        stdout,
        stderr,
    };
    let output = Output::Pipes(from_stdout, from_stderr);
    Ok((program, Streams { input, output }))
}

/// A follower's events, with a sign of life where there are none.
fn events<T: Send + 'static>(
    context: &RequestContext,
    followers: Followers,
    wrap: fn(ProcessEvent) -> T,
) -> impl Stream<Item = Result<T, ConnectError>> + Send + use<T> {
    let every = context
        .header(KEEPALIVE_HEADER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .filter(|seconds| *seconds > 0)
        .map_or(KEEPALIVE_DEFAULT, Duration::from_secs);
    stream::unfold(followers, move |mut followers| async move {
        let event = match tokio::time::timeout(every, followers.recv()).await {
            Ok(None) => return None,
            Ok(Some(event)) => event,
            Err(_) => ProcessEvent {
                event: Some(Event::from(KeepAlive::default())),
                ..Default::default()
            },
        };
        Some((event, followers))
    })
    .map(move |event| Ok(wrap(event)))
}

async fn write(process: &Followed, input: Option<ProcessInput>) -> Result<(), ConnectError> {
    match input.and_then(|input| input.input) {
        Some(process_input::Input::Stdin(data) | process_input::Input::Pty(data)) => {
            process.write(&data).await
        }
        None => Err(ConnectError::invalid_argument("no input is given")),
    }
}

impl Process for ProcessService {
    async fn list(
        &self,
        _context: RequestContext,
        _request: ServiceRequest<'_, ListRequest>,
    ) -> ServiceResult<ListResponse> {
        let processes = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let running = processes.iter().filter(|process| !process.has_ended());
        Response::ok(ListResponse {
            processes: running
                .map(|process| ProcessInfo {
                    config: process.config.clone().into(),
                    pid: process.pid,
                    tag: process.tag.clone(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
    }

    async fn connect(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, ConnectRequest>,
    ) -> ServiceResult<ServiceStream<ConnectResponse>> {
        let request = request.to_owned_message();
        let followers = self.find(request.process.as_option())?.follow();
        Ok(Response::stream(events(&context, followers, |event| {
            ConnectResponse {
                event: event.into(),
                ..Default::default()
            }
        })))
    }

    async fn start(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, StartRequest>,
    ) -> ServiceResult<ServiceStream<StartResponse>> {
        let request = request.to_owned_message();
        let (process, followers) = self
            .start_process(request, context.time_remaining())
            .await?;
        let events = events(&context, followers, |event| StartResponse {
            event: event.into(),
            ..Default::default()
        });
        Ok(Response::stream(events.map(move |event| {
            let event = event?;
            let message = event.event.as_option();
            let is_end = message.is_some_and(|it| matches!(it.event, Some(Event::End(_))));
            // Who has set the limit is told of it, and who joins later of the end.
            if is_end && process.timed_out() {
                return Err(ConnectError::deadline_exceeded(
                    "the process has run too long",
                ));
            }
            Ok(event)
        })))
    }

    async fn update(
        &self,
        _context: RequestContext,
        request: ServiceRequest<'_, UpdateRequest>,
    ) -> ServiceResult<UpdateResponse> {
        let request = request.to_owned_message();
        let process = self.find_running(request.process.as_option())?;
        if let Some(size) = request
            .pty
            .into_option()
            .and_then(|pty| pty.size.into_option())
        {
            process.resize(size.cols, size.rows)?;
        }
        Response::ok(UpdateResponse::default())
    }

    async fn stream_input(
        &self,
        _context: RequestContext,
        mut requests: InboundStream<StreamInputRequest>,
    ) -> ServiceResult<StreamInputResponse> {
        use stream_input_request::Event as Part;
        let mut process = None;
        while let Some(request) = requests.next().await {
            match request?.to_owned_message().event {
                Some(Part::Start(start)) => {
                    process = Some(self.find_running(start.process.as_option())?);
                }
                Some(Part::Data(data)) => {
                    let process = process.as_ref().ok_or_else(|| {
                        ConnectError::invalid_argument("the first message names the process")
                    })?;
                    write(process, data.input.into_option()).await?;
                }
                Some(Part::Keepalive(_)) | None => {}
            }
        }
        Response::ok(StreamInputResponse::default())
    }

    async fn send_input(
        &self,
        _context: RequestContext,
        request: ServiceRequest<'_, SendInputRequest>,
    ) -> ServiceResult<SendInputResponse> {
        let request = request.to_owned_message();
        let process = self.find_running(request.process.as_option())?;
        write(&process, request.input.into_option()).await?;
        Response::ok(SendInputResponse::default())
    }

    async fn send_signal(
        &self,
        _context: RequestContext,
        request: ServiceRequest<'_, SendSignalRequest>,
    ) -> ServiceResult<SendSignalResponse> {
        let request = request.to_owned_message();
        let process = self.find_running(request.process.as_option())?;
        // The contract names two; any other of the system's goes by its number.
        let signal = OsSignal::from_named_raw(request.signal.to_i32())
            .ok_or_else(|| ConnectError::invalid_argument("no known signal is given"))?;
        process.signal(signal).await;
        Response::ok(SendSignalResponse::default())
    }

    async fn close_stdin(
        &self,
        _context: RequestContext,
        request: ServiceRequest<'_, CloseStdinRequest>,
    ) -> ServiceResult<CloseStdinResponse> {
        let request = request.to_owned_message();
        self.find_running(request.process.as_option())?
            .close_input()
            .await?;
        Response::ok(CloseStdinResponse::default())
    }
}
