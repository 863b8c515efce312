//! A process over a WebSocket (RFC 6455): its input, output and terminal.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{
        FromRequestParts, State, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket, close_code},
    },
    response::Response,
};
use futures::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use http::request::Parts;
use sandbox_core::{Error, ErrorCode, TenantId};
use sandbox_execution::{Attached, Item, Process, ProcessEvent};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use utoipa::IntoParams;

use super::{ProcessResponse, Terminal, find, input, signal};
use crate::{
    AppState,
    caller::Caller,
    extract::{ProcessPath, Query},
    input::Encoding,
    problem::{ApiError, Problem},
    sse,
};

/// Gateways close a connection on which nothing comes.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// A client that has answered no ping for so long has gone.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// How long the client may take to close after the last frame.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// Refusals that wait to be sent.
const REFUSALS: usize = 16;
/// What may wait to be written, beside one frame.
const WRITE_BUFFER: usize = 128 << 10;

/// A request that can become a WebSocket; else a problem like all others.
pub(crate) struct Upgrade(WebSocketUpgrade);

impl FromRequestParts<AppState> for Upgrade {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        WebSocketUpgrade::from_request_parts(parts, state)
            .await
            .map(Self)
            .map_err(|_| ApiError::invalid("this route is a WebSocket (RFC 6455), version 13"))
    }
}

/// Whose process it is, and from where to read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AttachQuery {
    /// The token's tenant when it is absent.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    /// The number of the last event that is known; 0, the default, is none: what is kept of the
    /// output comes first.
    #[serde(default)]
    after: u64,
}

/// What a client may say in text; input may come as binary frames too.
#[derive(Deserialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    deny_unknown_fields,
    expecting = "a frame with a `type`"
)]
enum Said {
    Stdin {
        data: String,
        #[serde(default)]
        encoding: Encoding,
    },
    // With braces, for unknown fields are not refused without them.
    CloseStdin {},
    Resize(Terminal),
    Signal {
        #[serde(deserialize_with = "input::signal_text")]
        signal: String,
    },
}

/// What is said to a client in text; stdout comes as binary frames.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Say<'a> {
    Attached {
        process_id: &'a str,
        after: u64,
    },
    Stderr {
        id: u64,
        text: String,
    },
    Gap {
        last: u64,
    },
    Exit {
        id: u64,
        #[serde(flatten)]
        process: ProcessResponse,
    },
    Error {
        code: &'static str,
        detail: &'a str,
    },
}

impl Say<'_> {
    fn message(&self) -> Message {
        Message::text(sse::json(self))
    }
}

/// Attach to a process
///
/// A WebSocket. From the client: binary frames are input; text frames are JSON, `{"type":
/// "stdin", "data", "encoding"}`, `{"type": "close_stdin"}`, `{"type": "resize", "cols", "rows"}`
/// or `{"type": "signal", "signal"}`. To the client: binary frames are stdout, or what the
/// terminal shows; text frames are `{"type": "attached", "process_id", "after"}`, `{"type":
/// "stderr", "id", "text"}`, `{"type": "gap", "last"}`, `{"type": "error", "code", "detail"}` and
/// last `{"type": "exit", "id", ...}` with the process. A frame is at most 1 MiB. Whoever closes
/// it leaves the process running.
#[utoipa::path(
    get, path = "/processes/{process_id}/attach", tag = "processes",
    params(("process_id" = String, Path, format = "uuid"), AttachQuery),
    responses((status = 101, description = "It is a WebSocket now"), (status = "default", response = Problem)),
)]
pub(crate) async fn attach_process(
    caller: Caller,
    State(state): State<AppState>,
    ProcessPath(id): ProcessPath,
    Query(query): Query<AttachQuery>,
    Upgrade(upgrade): Upgrade,
) -> Result<Response, ApiError> {
    let process = find(&state, &caller, query.tenant_id, &id)?;
    let after = query.after.min(process.last_event());
    let attached = state.processes.attach(&process, after)?;
    let processes = state.processes.clone();
    Ok(upgrade
        .max_message_size(input::MAX_INPUT)
        .max_frame_size(input::MAX_INPUT)
        .write_buffer_size(0)
        .max_write_buffer_size(input::MAX_INPUT + WRITE_BUFFER)
        .on_upgrade(move |socket| async move {
            processes.until_done(speak(socket, attached, after)).await;
        }))
}

async fn speak(socket: WebSocket, attached: Attached, after: u64) {
    let process = Arc::clone(attached.process());
    let (sender, receiver) = socket.split();
    let (refusals, refused) = mpsc::channel(REFUSALS);
    // One of them alone could wait for the other for ever: a program that echoes.
    tokio::select! {
        () = listen(receiver, &process, refusals) => {}
        () = tell(sender, attached, after, refused) => {}
    }
}

/// Takes what the client says, until it goes.
async fn listen(
    mut receiver: SplitStream<WebSocket>,
    process: &Process,
    refusals: mpsc::Sender<Refusal>,
) {
    loop {
        let message = match timeout(SILENCE_LIMIT, receiver.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(_)) | None) | Err(_) => return,
        };
        let done = match message {
            Message::Binary(data) if data.is_empty() => Ok(()),
            Message::Binary(data) => process.write(data).await.map_err(Refusal::goes_on),
            Message::Text(text) => obey(text.as_str(), process).await,
            Message::Ping(_) | Message::Pong(_) => Ok(()),
            // The answer to it has been queued; the next read sends it and ends.
            Message::Close(_) => continue,
        };
        if let Err(refusal) = done
            && refusals.send(refusal).await.is_err()
        {
            return;
        }
    }
}

/// Why something that the client said was not done.
struct Refusal {
    error: Error,
    /// The frame was not one of ours: the connection ends.
    is_last: bool,
}

impl Refusal {
    fn goes_on(error: Error) -> Self {
        Self {
            error,
            is_last: false,
        }
    }

    fn ends(detail: String) -> Self {
        Self {
            error: Error::new(ErrorCode::InvalidRequest, detail),
            is_last: true,
        }
    }
}

async fn obey(text: &str, process: &Process) -> Result<(), Refusal> {
    let said = serde_json::from_str(text)
        .map_err(|error| Refusal::ends(format!("the frame is not one of this route: {error}")))?;
    done(said, process).await.map_err(Refusal::goes_on)
}

async fn done(said: Said, process: &Process) -> Result<(), Error> {
    match said {
        Said::Stdin { data, encoding } => {
            let data = encoding.decode("data", data)?;
            if data.is_empty() {
                return Ok(());
            }
            process.write(data.into()).await
        }
        Said::CloseStdin {} => process.close_input().await,
        Said::Resize(terminal) => {
            let (columns, rows) = terminal.size()?;
            process.resize(columns, rows).await
        }
        Said::Signal { signal } => process.signal(signal::number(&signal)?).await,
    }
}

/// Tells what the process prints, to its end.
async fn tell(
    mut sender: SplitSink<WebSocket, Message>,
    mut attached: Attached,
    after: u64,
    mut refused: mpsc::Receiver<Refusal>,
) {
    let process = Arc::clone(attached.process());
    let first = Say::Attached {
        process_id: process.id(),
        after,
    };
    if sender.send(first.message()).await.is_err() {
        return;
    }
    let mut pings = interval(PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings.reset_at(Instant::now() + PING_INTERVAL);
    let close = loop {
        let message = tokio::select! {
            item = attached.next() => match item {
                Some(item) => message(&mut attached, item),
                None if process.end().is_some() => break close(close_code::NORMAL, "the process has ended"),
                None => break close(close_code::POLICY, "the client reads too slowly"),
            },
            Some(refusal) = refused.recv() => {
                let error = Say::Error {
                    code: refusal.error.code().as_str(),
                    detail: refusal.error.detail(),
                };
                if refusal.is_last {
                    let _ = sender.send(error.message()).await;
                    break close(close_code::POLICY, "a frame was not understood");
                }
                error.message()
            }
            _ = pings.tick() => Message::Ping(Default::default()),
        };
        if sender.send(message).await.is_err() {
            return;
        }
    };
    // It is `listen` that sees the client's answer, and ends both.
    if sender.send(close).await.is_ok() {
        tokio::time::sleep(CLOSE_LIMIT).await;
    }
}

fn message(attached: &mut Attached, item: Item<ProcessEvent>) -> Message {
    let (id, event) = match item {
        Item::Gap { last } => return Say::Gap { last }.message(),
        Item::Event { id, event } => (id, event),
    };
    match event {
        ProcessEvent::Stdout(data) => Message::Binary(data),
        ProcessEvent::Stderr(data) => Say::Stderr {
            id,
            text: attached.stderr_text(&data),
        }
        .message(),
        ProcessEvent::Ended => Say::Exit {
            id,
            process: attached.process().as_ref().into(),
        }
        .message(),
    }
}

fn close(code: u16, reason: &'static str) -> Message {
    Message::Close(Some(CloseFrame {
        code,
        reason: reason.into(),
    }))
}
