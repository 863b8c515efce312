//! What runs in every sandbox of E2B before anything of ours: envd.

use std::{collections::BTreeMap, time::Duration};

use backon::{ExponentialBuilder, Retryable as _};
use bytes::Bytes;
use connectrpc::{
    ConnectError, ErrorCode as Connect,
    client::{CallOptions, ClientConfig, ServerStream, full_body},
};
use e2b_wire::{ENVD_PORT, FileOperation, FileSignature, Sandbox, headers};
use http::{HeaderValue, Request, StatusCode, Uri, header};
use hyper::body::Incoming;
use sandbox_core::{Error, Result};
use sandbox_wire::{
    filesystem::{self as files, FilesystemClient},
    process::{
        self as wire,
        __buffa::{
            oneof::{
                process_event::Event, process_event::data_event, process_input, process_selector,
            },
            view::StartResponseView,
        },
        ProcessClient,
    },
};

use crate::{
    address::Servers,
    error::{Said, refused, strange, unavailable, unreachable},
    http_client::{HttpClient, WithHeaders},
    secret::Secret,
};

/// For calls that should take milliseconds, and the way to the sandbox.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(15);
const FIRST_WAIT: Duration = Duration::from_millis(200);
const WAITS: usize = 3;
/// For callers that meet a sandbox which does not do as it should.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const UPLOAD_LIMIT: Duration = Duration::from_secs(60);
/// A stream that says nothing for so long is asked for by envd itself to live.
const KEEPALIVE_SECONDS: &str = "30";
/// Kept of what a command writes.
const MAX_OUTPUT: usize = 64 * 1024;
const BOUNDARY: &str = "sandboxd-f3b0c4429898fc1c";

/// A clone speaks to the same sandbox.
#[derive(Clone)]
pub(crate) struct Envd {
    http: WithHeaders,
    origin: String,
    token: Option<Secret>,
    process: ProcessClient<WithHeaders>,
    files: FilesystemClient<WithHeaders>,
}

/// A command that runs in the sandbox; it goes on when this is dropped.
pub(crate) struct Command {
    events: ServerStream<Incoming, StartResponseView<'static>>,
}

pub(crate) enum Output {
    Stdout(Bytes),
    Stderr(Bytes),
    /// With its exit code.
    Ended(i32),
}

/// A command to start.
#[derive(Default)]
pub(crate) struct Start<'a> {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub tag: Option<&'a str>,
    pub stdin: bool,
    /// Instead of the sandbox's usual user.
    pub user: Option<&'a str>,
}

impl Envd {
    /// `None` when the sandbox cannot be one.
    pub fn new(http: &HttpClient, servers: &Servers, sandbox: &Sandbox) -> Result<Self> {
        let domain = sandbox.domain.as_deref();
        let port = servers
            .port(&sandbox.sandbox_id, domain, ENVD_PORT)
            .ok_or_else(|| strange("a new sandbox", "its id is none"))?;
        let mut headers = port.headers;
        if let Some(token) = &sandbox.envd_access_token {
            let mut value =
                HeaderValue::from_str(token).map_err(|error| strange("a new sandbox", error))?;
            value.set_sensitive(true);
            headers.insert(headers::ACCESS_TOKEN, value);
        }
        let http = http.with(headers);
        let uri: Uri = port.origin.parse().map_err(Error::internal)?;
        let config = ClientConfig::new(uri).proto();
        Ok(Self {
            process: ProcessClient::new(http.clone(), config.clone()),
            files: FilesystemClient::new(http.clone(), config),
            http,
            origin: port.origin,
            token: sandbox.envd_access_token.as_deref().map(Secret::new),
        })
    }

    /// The same envd, for what gives a guest's services by it.
    pub fn as_guest(&self) -> Result<envd_guest::Envd> {
        let base = self.origin.parse().map_err(Error::internal)?;
        Ok(envd_guest::Envd::new(self.http.clone(), base))
    }

    /// Where anybody reads or writes one file until `expires`, in Unix seconds.
    pub fn file_url(&self, path: &str, operation: FileOperation, expires: i64) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("path", path);
        if let Some(token) = &self.token {
            let signature = FileSignature {
                path,
                operation,
                username: "",
                expires: Some(expires),
            };
            query
                .append_pair("signature", &signature.sign(token.expose()))
                .append_pair("signature_expiration", &expires.to_string());
        }
        format!("{}/files?{}", self.origin, query.finish())
    }

    /// The size of a file; `None` if there is none.
    pub async fn size(&self, path: &str) -> Result<Option<i64>> {
        let request = files::StatRequest {
            path: path.to_owned(),
            ..Default::default()
        };
        let call = || self.files.stat_with_options(request.clone(), quick());
        match call.retry(wakes()).when(is_asleep).await {
            Ok(answer) => Ok(answer
                .into_owned()
                .entry
                .into_option()
                .map(|entry| entry.size)),
            Err(error) if error.code == Connect::NotFound => Ok(None),
            Err(error) => Err(from_envd("look for a file", error)),
        }
    }

    /// Sees to it that a folder is there; false where the usual user may not make it.
    pub async fn make_folder(&self, path: &str) -> Result<bool> {
        let request = files::MakeDirRequest {
            path: path.to_owned(),
            ..Default::default()
        };
        let call = || self.files.make_dir_with_options(request.clone(), quick());
        match call.retry(wakes()).when(is_asleep).await {
            Ok(_) => Ok(true),
            Err(error) => match error.code {
                Connect::AlreadyExists => Ok(true),
                // envd tells what the system refuses as a fault of its own.
                Connect::PermissionDenied | Connect::Internal | Connect::Unknown => Ok(false),
                _ => Err(from_envd("make a folder", error)),
            },
        }
    }

    /// Writes a file whole, of any version of envd.
    pub async fn upload(&self, path: &str, data: &[u8]) -> Result<()> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let head = format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; \
             filename=\"{name}\"\r\ncontent-type: application/octet-stream\r\n\r\n"
        );
        let tail = format!("\r\n--{BOUNDARY}--\r\n");
        let body = Bytes::from([head.as_bytes(), data, tail.as_bytes()].concat());
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("path", path)
            .finish();
        let mut request = Request::post(format!("{}/files?{query}", self.origin))
            .header(
                header::CONTENT_TYPE,
                format!("multipart/form-data; boundary={BOUNDARY}"),
            )
            .body(full_body(body))
            .map_err(Error::internal)?;
        request.headers_mut().extend(self.http.headers().clone());
        let answer = self.http.client().ask(request, UPLOAD_LIMIT).await;
        let answer = answer.map_err(unreachable)?;
        match answer.status {
            StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT => Ok(()),
            status => {
                let said = Said::new(status, &answer.body);
                Err(refused("take a file", said, None))
            }
        }
    }

    /// Starts a command; the words of an argument mean nothing but themselves.
    pub async fn start(&self, start: Start<'_>) -> Result<Command> {
        let mut argv = start.argv.into_iter();
        let request = wire::StartRequest {
            process: wire::ProcessConfig {
                cmd: argv.next().unwrap_or_default(),
                args: argv.collect(),
                envs: start.env.into_iter().collect(),
                ..Default::default()
            }
            .into(),
            tag: start.tag.map(str::to_owned),
            stdin: Some(start.stdin),
            ..Default::default()
        };
        // No time limit: at its end envd would kill the command.
        let mut options =
            CallOptions::default().with_header(headers::KEEPALIVE_INTERVAL, KEEPALIVE_SECONDS);
        if let Some(user) = start.user {
            options = options.with_header(header::AUTHORIZATION, basic(user));
        }
        let starting = async {
            let mut events = self.process.start_with_options(request, options).await?;
            let first = events.message().await?;
            Ok((events, first))
        };
        let (events, first) = tokio::time::timeout(CALL_LIMIT, starting)
            .await
            .map_err(|_| unavailable("the sandbox did not start a command in time"))?
            .map_err(|error| from_envd("start a command", error))?;
        let event = first.and_then(|message| message.to_owned_message().event.into_option());
        match event.and_then(|event| event.event) {
            Some(Event::Start(_)) => Ok(Command { events }),
            _ => Err(strange("the start of a command", "it did not start")),
        }
    }

    /// What a short command prints, and its exit code.
    pub async fn run(&self, argv: &[&str], user: Option<&str>) -> Result<(i32, Vec<u8>)> {
        let start = Start {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            user,
            ..Start::default()
        };
        let running = async {
            let mut command = self.start(start).await?;
            let mut output = Vec::new();
            loop {
                match command.next().await? {
                    Output::Stdout(part) => {
                        let room = MAX_OUTPUT.saturating_sub(output.len());
                        output.extend_from_slice(&part[..part.len().min(room)]);
                    }
                    Output::Stderr(_) => {}
                    Output::Ended(code) => return Ok((code, output)),
                }
            }
        };
        tokio::time::timeout(CALL_LIMIT, running)
            .await
            .map_err(|_| unavailable("a command did not end in time"))?
    }

    /// Gives a command input; it is written when this returns.
    pub async fn send_input(&self, tag: &str, data: Bytes) -> Result<()> {
        let request = wire::SendInputRequest {
            process: selector(tag).into(),
            input: wire::ProcessInput {
                input: Some(process_input::Input::Stdin(data.into())),
                ..Default::default()
            }
            .into(),
            ..Default::default()
        };
        let call = self.process.send_input_with_options(request, quick());
        call.await
            .map(drop)
            .map_err(|error| from_envd("take input", error))
    }

    /// The commands that run and have a tag.
    pub async fn tags(&self) -> Result<Vec<String>> {
        let call = self
            .process
            .list_with_options(wire::ListRequest::default(), quick());
        let answer = call
            .await
            .map_err(|error| from_envd("list its commands", error))?;
        Ok(answer
            .into_owned()
            .processes
            .into_iter()
            .filter_map(|process| process.tag)
            .collect())
    }

    /// None of this tag is fine.
    pub async fn signal(&self, tag: &str, signal: wire::Signal) -> Result<()> {
        let request = wire::SendSignalRequest {
            process: selector(tag).into(),
            signal: signal.into(),
            ..Default::default()
        };
        let call = self.process.send_signal_with_options(request, quick());
        match call.await {
            Ok(_) => Ok(()),
            Err(error) if error.code == Connect::NotFound => Ok(()),
            Err(error) => Err(from_envd("end a command", error)),
        }
    }
}

impl Command {
    /// What happens next; nothing comes after the end.
    pub async fn next(&mut self) -> Result<Output> {
        loop {
            let message = self.events.message().await;
            let message = message.map_err(|error| from_envd("follow a command", error))?;
            let event = message
                .and_then(|message| message.to_owned_message().event.into_option())
                .and_then(|event| event.event);
            match event {
                Some(Event::Data(data)) => match data.output {
                    Some(data_event::Output::Stdout(data)) => {
                        return Ok(Output::Stdout(data.into()));
                    }
                    Some(data_event::Output::Stderr(data) | data_event::Output::Pty(data)) => {
                        return Ok(Output::Stderr(data.into()));
                    }
                    None => {}
                },
                Some(Event::End(end)) => return Ok(Output::Ended(end.exit_code)),
                Some(Event::Keepalive(_)) => {}
                Some(Event::Start(_)) | None => {
                    return Err(strange("a command", "it has no end"));
                }
            }
        }
    }
}

/// For the first calls to a sandbox, which may just have been made or resumed.
fn wakes() -> ExponentialBuilder {
    ExponentialBuilder::new()
        .with_min_delay(FIRST_WAIT)
        .with_max_times(WAITS)
        .with_jitter()
}

/// What is before it does not find it yet.
fn is_asleep(error: &ConnectError) -> bool {
    error.code == Connect::Unavailable
}

fn quick() -> CallOptions {
    CallOptions::default().with_timeout(CALL_LIMIT)
}

fn selector(tag: &str) -> wire::ProcessSelector {
    wire::ProcessSelector {
        selector: Some(process_selector::Selector::Tag(tag.to_owned())),
        ..Default::default()
    }
}

/// A user without a password: envd asks for none.
fn basic(user: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    format!("Basic {}", STANDARD.encode(format!("{user}:")))
}

fn from_envd(what: &str, error: ConnectError) -> Error {
    unavailable(format!("the sandbox did not {what}"))
        .with_retry_after(RETRY_AFTER)
        .with_source(error)
}
