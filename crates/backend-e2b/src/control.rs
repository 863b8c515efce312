//! The control plane: sandboxes are made, found, kept alive, paused and ended.
//!
//! Every call may be sent twice: what changes something names what it shall be then, and
//! a create has a key by which the server knows it again.

use std::{sync::Arc, time::Duration};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use bytes::Bytes;
use connectrpc::client::full_body;
use e2b_wire::{
    ConnectSandbox, ListedSandbox, NewSandbox, PauseSandbox, Sandbox, SandboxMetric,
    SandboxTimeout, headers,
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use sandbox_core::{Error, Result};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{Instant, sleep};
use tracing::debug;

use crate::{
    error::{Said, refused, strange, unavailable, unreachable},
    http_client::{Answer, Failed, HttpClient},
    secret::Secret,
};

const USER_AGENT: &str = concat!("sandboxd/", env!("CARGO_PKG_VERSION"));
/// For one answer; a server may have to wait for a node.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// For all tries together: callers wait for 45 seconds at most.
const TRY_LIMIT: Duration = Duration::from_secs(35);
/// Longer than this no caller is kept waiting; it learns when to come again.
const MAX_WAIT: Duration = Duration::from_secs(5);
const FIRST_WAIT: Duration = Duration::from_millis(200);
const TRIES: usize = 4;
/// The largest page that E2B gives.
const PAGE: usize = 100;
/// A server that never ends a list is broken.
const MAX_PAGES: usize = 1000;

/// A clone speaks for the same account.
#[derive(Clone)]
pub(crate) struct Control {
    http: HttpClient,
    origin: Arc<str>,
    key: HeaderValue,
}

/// What became of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pausing {
    Paused,
    /// There is no such sandbox.
    Gone,
    /// This server has no pauses.
    Unsupported,
}

impl Control {
    pub fn new(http: HttpClient, origin: &str, key: &Secret) -> Result<Self> {
        let mut key = HeaderValue::from_str(key.expose())
            .map_err(|_| unavailable("E2B_API_KEY has characters that no key has"))?;
        key.set_sensitive(true);
        Ok(Self {
            http,
            origin: origin.into(),
            key,
        })
    }

    /// `secure`: nobody reaches the sandbox without its tokens. The newer route knows
    /// nothing else, and the older one has to be asked for it.
    pub async fn create(&self, mut new: NewSandbox, secure: bool) -> Result<Sandbox> {
        let once = HeaderValue::from_str(&uuid::Uuid::new_v4().to_string());
        new.secure = (!secure).then_some(false);
        let path = if secure {
            "/v2/sandboxes"
        } else {
            "/sandboxes"
        };
        let call = Call {
            once: once.ok(),
            ..Call::new(Method::POST, path).with(&new)?
        };
        let answer = self.call(&call).await?;
        match answer.status {
            StatusCode::CREATED | StatusCode::OK => read("make a sandbox", &answer),
            StatusCode::NOT_FOUND => Err(unavailable(
                "the E2B server does not know the template in E2B_TEMPLATE",
            )
            .with_source(said(&answer))),
            _ => Err(refusal("make a sandbox", &answer)),
        }
    }

    /// The sandbox, resumed if it was paused; `None` if there is none.
    pub async fn connect(&self, id: &str, timeout: Duration) -> Result<Option<Sandbox>> {
        let body = ConnectSandbox {
            timeout: Some(seconds(timeout)),
            memory: None,
        };
        let path = format!("/v2/sandboxes/{id}/connect");
        let call = Call::new(Method::POST, path).with(&body)?;
        let answer = self.call(&call).await?;
        match answer.status {
            StatusCode::OK | StatusCode::CREATED => read("resume a sandbox", &answer).map(Some),
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            _ => Err(refusal("resume a sandbox", &answer)),
        }
    }

    /// All that have this metadata, running or paused.
    pub async fn list(&self, metadata: &[(&str, &str)]) -> Result<Vec<ListedSandbox>> {
        let mut all = Vec::new();
        let mut next: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let path = page(metadata, next.as_deref());
            let answer = self.call(&Call::new(Method::GET, path)).await?;
            if answer.status != StatusCode::OK {
                return Err(refusal("list its sandboxes", &answer));
            }
            let page: Vec<ListedSandbox> = read("a list of sandboxes", &answer)?;
            all.extend(page);
            let token = answer.headers.get(headers::NEXT_TOKEN);
            next = token
                .and_then(|it| it.to_str().ok())
                .filter(|it| !it.is_empty())
                .map(str::to_owned);
            if next.is_none() {
                return Ok(all);
            }
        }
        Err(strange("a list of sandboxes", "it does not end"))
    }

    /// Whether the server answers, and knows the key.
    pub async fn look(&self) -> Result<()> {
        let call = Call::new(Method::GET, "/v2/sandboxes?limit=1");
        let answer = self.ask_once(&call).await.map_err(unreachable)?;
        match answer.status {
            StatusCode::OK => Ok(()),
            _ => Err(refusal("list its sandboxes", &answer)),
        }
    }

    /// From now on it ends after this time; false if there is none.
    pub async fn set_timeout(&self, id: &str, timeout: Duration) -> Result<bool> {
        let body = SandboxTimeout {
            timeout: seconds(timeout),
        };
        let path = format!("/sandboxes/{id}/timeout");
        let call = Call::new(Method::POST, path).with(&body)?;
        self.change("keep a sandbox alive", &call).await
    }

    pub async fn pause(&self, id: &str) -> Result<Pausing> {
        let body = PauseSandbox {
            // A sandbox that is made again has its files alone, on every backend.
            memory: Some(false),
            require_healthy_guest: None,
        };
        let path = format!("/sandboxes/{id}/pause");
        let call = Call::new(Method::POST, path).with(&body)?;
        let answer = self.call(&call).await?;
        match answer.status {
            status if status.is_success() => Ok(Pausing::Paused),
            // It is paused already.
            StatusCode::CONFLICT => Ok(Pausing::Paused),
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(Pausing::Gone),
            StatusCode::BAD_REQUEST
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::NOT_IMPLEMENTED => {
                debug!("no pause: {}", said(&answer));
                Ok(Pausing::Unsupported)
            }
            _ => Err(refusal("pause a sandbox", &answer)),
        }
    }

    /// The newest of what it used; `None` where nothing is known yet.
    pub async fn memory_used(&self, id: &str) -> Result<Option<u64>> {
        let call = Call::new(Method::GET, format!("/sandboxes/{id}/metrics"));
        let answer = self.call(&call).await?;
        if answer.status != StatusCode::OK {
            return Err(refusal("tell what a sandbox uses", &answer));
        }
        let metrics: Vec<SandboxMetric> = read("what a sandbox uses", &answer)?;
        let newest = metrics.iter().max_by_key(|it| it.timestamp_unix);
        Ok(newest.map(|it| it.mem_used))
    }

    /// Ends it and all that it has; none is fine.
    pub async fn kill(&self, id: &str) -> Result<()> {
        let call = Call::new(Method::DELETE, format!("/sandboxes/{id}"));
        self.change("end a sandbox", &call).await.map(drop)
    }

    /// Without an answer that says something; false if there is no such sandbox.
    async fn change(&self, what: &str, call: &Call) -> Result<bool> {
        let answer = self.call(call).await?;
        match answer.status {
            status if status.is_success() => Ok(true),
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(false),
            _ => Err(refusal(what, &answer)),
        }
    }

    /// Tries until there is an answer that another try would not change.
    async fn call(&self, call: &Call) -> Result<Answer> {
        let until = Instant::now() + TRY_LIMIT;
        let mut waits = ExponentialBuilder::new()
            .with_min_delay(FIRST_WAIT)
            .with_max_times(TRIES - 1)
            .with_jitter()
            .build();
        loop {
            let asked = self.ask_once(call).await;
            let wait = match &asked {
                Ok(answer) if !may_pass(answer) => None,
                Ok(answer) => waits
                    .next()
                    .map(|wait| retry_after(&answer.headers).unwrap_or(wait)),
                Err(_) => waits.next(),
            };
            match wait {
                Some(wait) if wait <= MAX_WAIT && Instant::now() + wait < until => {
                    sleep(wait).await;
                }
                _ => {
                    return asked.map_err(|failed| {
                        unreachable(Unanswered {
                            origin: Arc::clone(&self.origin),
                            source: failed,
                        })
                    });
                }
            }
        }
    }

    async fn ask_once(&self, call: &Call) -> Result<Answer, Failed> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", self.origin, call.path))
            .header(headers::API_KEY, self.key.clone())
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, "application/json");
        if let Some(once) = &call.once {
            request = request.header(headers::IDEMPOTENCY_KEY, once);
        }
        if call.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = full_body(call.body.clone().unwrap_or_default());
        let request = request.body(body).map_err(Failed::Request)?;
        self.http.ask(request, ANSWER_LIMIT).await
    }
}

/// Says where, for the log; a caller is not told where its sandboxes are.
#[derive(Debug, thiserror::Error)]
#[error("nothing came from `{origin}`")]
struct Unanswered {
    origin: Arc<str>,
    source: Failed,
}

/// One request, which may be sent more than once.
struct Call {
    method: Method,
    path: String,
    body: Option<Bytes>,
    once: Option<HeaderValue>,
}

impl Call {
    fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            body: None,
            once: None,
        }
    }

    fn with(mut self, body: &impl Serialize) -> Result<Self> {
        self.body = Some(serde_json::to_vec(body).map_err(Error::internal)?.into());
        Ok(self)
    }
}

/// The metadata is a query within the query.
fn page(metadata: &[(&str, &str)], next: Option<&str>) -> String {
    let filter: String = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(metadata)
        .finish();
    let mut query = form_urlencoded::Serializer::new(String::new());
    query
        .append_pair("metadata", &filter)
        .append_pair("state", "running,paused")
        .append_pair("limit", &PAGE.to_string());
    if let Some(next) = next {
        query.append_pair("nextToken", next);
    }
    format!("/v2/sandboxes?{}", query.finish())
}

/// Whether another try may be answered in another way.
fn may_pass(answer: &Answer) -> bool {
    let told = answer.headers.get(headers::SHOULD_RETRY);
    match told.map(HeaderValue::as_bytes) {
        Some(b"true") => true,
        Some(b"false") => false,
        _ => matches!(answer.status.as_u16(), 429 | 500 | 502 | 503 | 504),
    }
}

/// A number of seconds; a date is as good as nothing.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(value.trim().parse().ok()?))
}

fn said(answer: &Answer) -> Said {
    Said::new(answer.status, &answer.body)
}

fn refusal(what: &str, answer: &Answer) -> Error {
    refused(what, said(answer), retry_after(&answer.headers))
}

fn read<T: DeserializeOwned>(what: &str, answer: &Answer) -> Result<T> {
    serde_json::from_slice(&answer.body).map_err(|error| strange(what, error))
}

fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs().max(1)).unwrap_or(u32::MAX)
}
