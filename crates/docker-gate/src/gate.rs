//! A request on its way: understood, checked, sent on, answered.

use std::{path::PathBuf, sync::Arc, sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

use crate::{
    archive, body,
    body::Role,
    call::{Act, Call, Patience},
    json,
    ours::{Found, Ours},
    policy::Policy,
    query::Query,
    refusal::{Refusal, Result},
    stall::Released,
    target::Target,
    tunnel,
    upstream::{Body, Content, Upstream, full, read},
};

const MAX_JSON: usize = 1024 * 1024;
const JSON_LIMIT: Duration = Duration::from_secs(15);
const MAX_ARCHIVE: usize = 64 * 1024 * 1024;
const ARCHIVE_LIMIT: Duration = Duration::from_secs(60);
/// Archives in memory at a time; others wait.
const ARCHIVES: usize = 2;
/// What is still read of a body after its call was refused, so that the refusal
/// arrives.
const REST_LIMIT: Duration = Duration::from_secs(5);
/// Of a path in the log.
const LOGGED_CHARS: usize = 200;
/// What of the daemon's headers is passed back.
const HEADERS: [&str; 7] = [
    "api-version",
    "builder-version",
    "content-type",
    "docker-experimental",
    "ostype",
    "server",
    "swarm",
];

pub struct Gate {
    policy: Policy,
    upstream: Upstream,
    ours: Ours,
    archives: Semaphore,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What came, but for its body.
struct Head {
    method: Method,
    version: String,
    call: Call,
}

impl Gate {
    /// Connections and streams are owned by `tasks`; streams end with `stop`.
    pub fn new(
        policy: Policy,
        socket: PathBuf,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        Self {
            policy,
            upstream: Upstream::new(socket, tasks.clone()),
            ours: Ours::default(),
            archives: Semaphore::new(ARCHIVES),
            tasks,
            stop,
        }
    }

    pub async fn handle(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        released: Released,
    ) -> Response<Body> {
        let answer = match self.head(&request) {
            Ok(head) => self.carry_out(head, &mut request, &released).await,
            Err(refusal) => Err(refusal),
        };
        match answer {
            Ok(answer) => answer,
            Err(refusal) => {
                log(&request, &refusal);
                read_rest(&mut request).await;
                json_answer(refusal.status, refusal.body().into())
            }
        }
    }

    fn head(&self, request: &Request<Incoming>) -> Result<Head> {
        // Only browsers send it, on behalf of a page that has no business here.
        if request.headers().contains_key(header::ORIGIN) {
            return Err(Refusal::forbidden("a browser has no business here"));
        }
        let uri = request.uri();
        let target = Target::parse(uri.path())?;
        let query = Query::parse(uri.query().unwrap_or_default())?;
        let call = Call::of(request.method(), &target, query, &self.policy)?;
        Ok(Head {
            method: request.method().clone(),
            version: target.version,
            call,
        })
    }

    async fn carry_out(
        &self,
        head: Head,
        request: &mut Request<Incoming>,
        released: &Released,
    ) -> Result<Response<Body>> {
        let Head {
            method,
            version,
            call,
        } = head;
        let send = |path: String, content, patience| {
            let path = format!("{version}{path}");
            let method = method.clone();
            async move { self.upstream.send(method, &path, content, patience).await }
        };
        match call {
            Call::Plain { path, patience } => {
                nothing(request).await?;
                send(path, Content::None, patience).await.map(passed_back)
            }
            Call::CreateContainer { query } => {
                let checked = body::container(&self.policy, &json_of(request).await?)?;
                for volume in &checked.volumes {
                    self.ours.volume(&self.upstream, volume).await?;
                }
                let path = format!("/containers/create{query}");
                let answer = send(path, Content::Json(checked.body), Patience::Short).await?;
                self.remember(answer, checked.role).await
            }
            Call::Container {
                reference,
                act,
                query,
            } => {
                let found = self.ours.container(&self.upstream, &reference).await?;
                permit(act, found.role)?;
                let path = format!("/containers/{}{}{query}", found.id, act.path());
                match act {
                    Act::Attach => {
                        nothing(request).await?;
                        if !asks_for_stream(request) {
                            return Err(Refusal::forbidden(
                                "to attach, ask for it by `Connection: Upgrade` and `Upgrade: tcp`",
                            ));
                        }
                        let answer = send(path, Content::Upgrade, Patience::Short).await?;
                        self.attached(answer, request, released).await
                    }
                    Act::Put(folder) => {
                        // Never closed.
                        let _permit = self.archives.acquire().await;
                        let given = whole(request, MAX_ARCHIVE, ARCHIVE_LIMIT).await?;
                        let pieces = archive::check(folder, &given)?;
                        drop(given);
                        let content = Content::Archive(pieces);
                        send(path, content, Patience::Short).await.map(passed_back)
                    }
                    Act::Update => {
                        let content = Content::Json(body::update(&json_of(request).await?)?);
                        send(path, content, Patience::Short).await.map(passed_back)
                    }
                    Act::Remove => {
                        nothing(request).await?;
                        let answer = send(path, Content::None, Patience::Short).await?;
                        self.forget(&found, answer.status());
                        Ok(passed_back(answer))
                    }
                    Act::Wait => {
                        nothing(request).await?;
                        send(path, Content::None, Patience::Endless)
                            .await
                            .map(passed_back)
                    }
                    Act::Start | Act::Inspect | Act::Kill => {
                        nothing(request).await?;
                        send(path, Content::None, Patience::Short)
                            .await
                            .map(passed_back)
                    }
                }
            }
            Call::CreateVolume => {
                let content = Content::Json(body::volume(&json_of(request).await?)?);
                send("/volumes/create".into(), content, Patience::Short)
                    .await
                    .map(passed_back)
            }
            Call::Volume { name, query } => {
                nothing(request).await?;
                self.ours.volume(&self.upstream, &name).await?;
                let path = format!("/volumes/{name}{query}");
                send(path, Content::None, Patience::Short)
                    .await
                    .map(passed_back)
            }
            Call::InspectImage { image } => {
                nothing(request).await?;
                let path = format!("/images/{}/json", image.text());
                send(path, Content::None, Patience::Short)
                    .await
                    .map(passed_back)
            }
            Call::PullImage { query } => {
                nothing(request).await?;
                let path = format!("/images/create{query}");
                send(path, Content::None, Patience::Endless)
                    .await
                    .map(passed_back)
            }
        }
    }

    /// Keeps whose the new container is.
    async fn remember(&self, answer: Response<Incoming>, role: Role) -> Result<Response<Body>> {
        if answer.status() != StatusCode::CREATED {
            return Ok(passed_back(answer));
        }
        let answer = read(answer).await?;
        if let Some(id) = answer.json()?["Id"].as_str() {
            self.ours.add(id, role);
        }
        Ok(json_answer(answer.status, answer.body))
    }

    fn forget(&self, found: &Found, status: StatusCode) {
        if status.is_success() || status == StatusCode::NOT_FOUND {
            self.ours.forget(&found.id);
        }
    }

    /// Answers with the stream, where the daemon has one.
    async fn attached(
        &self,
        mut answer: Response<Incoming>,
        request: &mut Request<Incoming>,
        released: &Released,
    ) -> Result<Response<Body>> {
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            // An answer of 200 would be a stream without an end that anybody sees.
            if answer.status().is_success() {
                return Err(Refusal::upstream(
                    "the Docker daemon does not give the stream",
                ));
            }
            return Ok(passed_back(answer));
        }
        let daemon = hyper::upgrade::on(&mut answer);
        let client = hyper::upgrade::on(&mut *request);
        released.store(true, Ordering::Relaxed);
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = tunnel::carry(client, daemon) => {}
                () = stop.cancelled() => {}
            }
        });
        let mut response = Response::new(full(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("tcp"));
        if let Some(kind) = answer.headers().get(header::CONTENT_TYPE) {
            headers.insert(header::CONTENT_TYPE, kind.clone());
        }
        Ok(response)
    }
}

/// What may be done with a container depends on what it is for.
fn permit(act: Act, role: Role) -> Result<()> {
    match (act, role) {
        // It runs as root and unbounded, if what is to be its program is written to it.
        (Act::Start | Act::Attach, Role::Helper) => Err(Refusal::forbidden(
            "a container with the entrypoint `/none` is never started",
        )),
        // The daemon would write, as root, where a program changes the paths meanwhile.
        (Act::Put(_), Role::Sandbox) => Err(Refusal::forbidden(
            "archives are written through containers with the entrypoint `/none` only",
        )),
        _ => Ok(()),
    }
}

fn asks_for_stream(request: &Request<Incoming>) -> bool {
    let is = |name, wanted: &str| {
        let value = request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.eq_ignore_ascii_case(wanted))
    };
    is(header::CONNECTION, "upgrade") && is(header::UPGRADE, "tcp")
}

async fn json_of(request: &mut Request<Incoming>) -> Result<Bytes> {
    whole(request, MAX_JSON, JSON_LIMIT).await
}

/// Of calls that have no body, it may say nothing.
async fn nothing(request: &mut Request<Incoming>) -> Result<()> {
    let body = whole(request, MAX_JSON, JSON_LIMIT).await?;
    if body.is_empty() || json::is_empty(&json::parse(&body)?) {
        return Ok(());
    }
    Err(Refusal::forbidden("this call has no body"))
}

async fn whole(request: &mut Request<Incoming>, max: usize, limit: Duration) -> Result<Bytes> {
    if request.headers().contains_key(header::CONTENT_ENCODING) {
        return Err(Refusal::malformed("a body is not to be compressed"));
    }
    let too_large = || {
        let reason = format!("the body has more than {max} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, reason)
    };
    if request.body().size_hint().lower() > max as u64 {
        return Err(too_large());
    }
    match timeout(limit, Limited::new(request.body_mut(), max).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Refusal::malformed("the body ended early")),
        Err(_) => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body did not arrive within {} seconds", limit.as_secs()),
        )),
    }
}

/// Reads on for a while: a connection that is closed before its request was read
/// takes the answer with it.
async fn read_rest(request: &mut Request<Incoming>) {
    let body = request.body_mut();
    let rest = async {
        let mut count = 0;
        while let Some(Ok(frame)) = body.frame().await {
            count += frame.data_ref().map_or(0, Bytes::len);
            if count > MAX_ARCHIVE {
                return;
            }
        }
    };
    // Whoever is slower does not get to know why.
    let _ = timeout(REST_LIMIT, rest).await;
}

fn log(request: &Request<Incoming>, refusal: &Refusal) {
    let method = request.method();
    let path: String = request.uri().path().chars().take(LOGGED_CHARS).collect();
    let path = path.escape_debug();
    let (status, reason) = (refusal.status.as_u16(), &refusal.reason);
    if refusal.status == StatusCode::NOT_FOUND {
        info!(%method, %path, status, "not found: {method} {path}: {reason}");
    } else {
        warn!(%method, %path, status, "refused {method} {path}: {reason}");
    }
}

fn passed_back(answer: Response<Incoming>) -> Response<Body> {
    let (head, body) = answer.into_parts();
    // Nothing was asked that could end in it.
    if head.status.is_informational() {
        let refusal = Refusal::upstream("the Docker daemon's answer makes no sense");
        return json_answer(refusal.status, refusal.body().into());
    }
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = head.status;
    for name in HEADERS {
        if let Some(value) = head.headers.get(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

fn json_answer(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
