//! Processes that go on: envd's own, but for what they are started with and how they
//! are killed. All other calls of `process.Process` go to envd as they come.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use connectrpc::{ConnectError, client::CallOptions};
use futures::{Stream, stream};
use guest_parts::path;
use sandbox_wire::process::{
    __buffa::oneof::{process_event, process_selector::Selector},
    ListRequest, ProcessSelector, SendSignalRequest, SendSignalResponse, Signal, StartRequest,
    StartResponse,
};
use tokio::time::timeout;

use crate::{
    envd::{CALL_LIMIT, text},
    run::{Mark, end_all, start_error},
    state::State,
    tools::Events,
    words::of_call,
};

const START_LIMIT: Duration = Duration::from_secs(15);
const KEEPALIVE_HEADER: &str = "keepalive-ping-interval";
/// Processes whose mark is known; the oldest are forgotten.
const MARKS: usize = 4096;

/// $1 is the number of a signal, $2 of a process.
const SIGNAL: &str = "kill -\"$1\" \"$2\"";

/// How all that a process has started is found.
#[derive(Default)]
pub(crate) struct Marks(Mutex<VecDeque<Known>>);

struct Known {
    pid: u32,
    tag: Option<String>,
    mark: Mark,
}

impl Marks {
    fn add(&self, known: Known) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MARKS {
            all.pop_front();
        }
        all.push_back(known);
    }

    fn find(&self, process: &ProcessSelector) -> Option<(u32, Mark)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().rev().find(|known| match &process.selector {
            Some(Selector::Pid(pid)) => known.pid == *pid,
            Some(Selector::Tag(tag)) => known.tag.as_ref() == Some(tag),
            None => false,
        });
        known.map(|known| (known.pid, known.mark.clone()))
    }
}

/// Starts a process with the sandbox's variables, in the workspace.
pub(crate) async fn start(
    state: &Arc<State>,
    mut request: StartRequest,
    keepalive: Option<&str>,
    limit: Option<Duration>,
) -> Result<impl Stream<Item = Result<StartResponse, ConnectError>> + Send + use<>, ConnectError> {
    let mark = Mark::new();
    let Some(config) = request.process.as_option_mut() else {
        return Err(ConnectError::invalid_argument("no command is given"));
    };
    let program = config.cmd.clone();
    let cwd = match config.cwd.as_deref() {
        None | Some("") => state.workspace.clone(),
        Some(cwd) => path::in_sandbox(&state.workspace, cwd)?,
    };
    config.cwd = Some(text(&cwd)?);
    for (name, value) in state.env() {
        config.envs.entry(name).or_insert(value);
    }
    let (name, value) = mark.variable();
    config.envs.insert(name, value);
    let tag = request.tag.clone();
    let mut options = CallOptions::default();
    if let Some(limit) = limit {
        options = options.with_timeout(limit);
    }
    if let Some(keepalive) = keepalive {
        options = options.with_header(KEEPALIVE_HEADER, keepalive);
    }
    let options = state.envd.with_user(options);
    let starting = async {
        let call = state.envd.process.start_with_options(request, options);
        let mut events = call.await?;
        let first = events.message().await?;
        Ok((events, first.map(|message| message.to_owned_message())))
    };
    let (events, first) = timeout(START_LIMIT, starting)
        .await
        .map_err(|_| of_call(&ConnectError::deadline_exceeded("")))?
        .map_err(|cause| start_error(&cause, &program))?;
    let pid = first
        .as_ref()
        .and_then(|first| match first.event.as_option()?.event.as_ref()? {
            process_event::Event::Start(start) => Some(start.pid),
            _ => None,
        });
    if let Some(pid) = pid {
        state.marks.add(Known { pid, tag, mark });
    }
    let first = stream::iter(first.map(Ok));
    Ok(futures::StreamExt::chain(
        first,
        stream::try_unfold(events, following),
    ))
}

async fn following(mut events: Events) -> Result<Option<(StartResponse, Events)>, ConnectError> {
    let message = events.message().await?;
    Ok(message.map(|message| (message.to_owned_message(), events)))
}

/// SIGKILL ends all that a process has started; envd knows SIGTERM, and no other signal.
pub(crate) async fn signal(
    state: &State,
    request: SendSignalRequest,
) -> Result<SendSignalResponse, ConnectError> {
    let number = request.signal.to_i32();
    let process = request.process.as_option().cloned().unwrap_or_default();
    if number == Signal::SIGNAL_SIGTERM as i32 {
        let call = state
            .envd
            .process
            .send_signal_with_options(request, state.envd.options(CALL_LIMIT));
        return call.await.map(|answer| answer.into_owned());
    }
    if !(1..=64).contains(&number) {
        return Err(ConnectError::invalid_argument("no known signal is given"));
    }
    let known = state.marks.find(&process);
    let Some((pid, mark)) = running(state, &process, known).await? else {
        return Err(ConnectError::not_found("there is no such process"));
    };
    match mark {
        Some(mark) if number == Signal::SIGNAL_SIGKILL as i32 => {
            end_all(&state.envd, &mark, process, Duration::ZERO).await;
        }
        _ if number == Signal::SIGNAL_SIGKILL as i32 => {
            let call = state
                .envd
                .process
                .send_signal_with_options(request, state.envd.options(CALL_LIMIT));
            call.await?;
        }
        _ => {
            let (number, pid) = (number.to_string(), pid.to_string());
            let argv = ["/bin/sh", "-c", SIGNAL, "sh", &number, &pid];
            let said = state.envd.tool(&argv, CALL_LIMIT).await;
            if said.map_err(|cause| of_call(&cause))?.code != 0 {
                return Err(ConnectError::not_found("the process has ended"));
            }
        }
    }
    Ok(SendSignalResponse::default())
}

/// A process that runs; its number is its own as long as envd lists it.
async fn running(
    state: &State,
    process: &ProcessSelector,
    known: Option<(u32, Mark)>,
) -> Result<Option<(u32, Option<Mark>)>, ConnectError> {
    let call = state
        .envd
        .process
        .list_with_options(ListRequest::default(), state.envd.options(CALL_LIMIT));
    let listed = call.await.map_err(|cause| of_call(&cause))?.into_owned();
    let found = listed
        .processes
        .into_iter()
        .find(|it| match &process.selector {
            Some(Selector::Pid(pid)) => it.pid == *pid,
            Some(Selector::Tag(tag)) => it.tag.as_ref() == Some(tag),
            None => false,
        });
    Ok(found.map(|found| {
        let mark = known.filter(|(pid, _)| *pid == found.pid);
        (found.pid, mark.map(|(_, mark)| mark))
    }))
}
