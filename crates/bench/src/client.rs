//! HTTP over a connection that is kept, with nothing between: what a client adds to each
//! sample should be little.

use std::{
    str::FromStr as _,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, StatusCode, Uri,
    client::conn::http1::{SendRequest, handshake},
    header::{CONTENT_TYPE, HOST, HeaderMap},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::{Result, work::Work};

const IDLE: Duration = Duration::from_secs(3);

pub struct Client {
    url: Uri,
    connection: SendRequest<Full<Bytes>>,
    used: Instant,
    /// Of every request, in the place of those that it would have.
    pub headers: HeaderMap,
}

async fn connect(url: &Uri) -> Result<SendRequest<Full<Bytes>>> {
    let host = url.authority().ok_or("a URL without a host")?.as_str();
    let stream = TcpStream::connect(host).await?;
    stream.set_nodelay(true)?;
    let (connection, driver) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(driver);
    Ok(connection)
}

pub struct Answer {
    pub status: StatusCode,
    pub body: Bytes,
    pub took: Duration,
}

impl Client {
    pub async fn connect(url: &str) -> Result<Self> {
        let url = Uri::from_str(url)?;
        let connection = connect(&url).await?;
        Ok(Self {
            url,
            connection,
            used: Instant::now(),
            headers: HeaderMap::new(),
        })
    }

    /// `body`: none at all when it is empty.
    pub async fn send(&mut self, method: Method, path: &str, body: Bytes) -> Result<Answer> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.url.authority().map_or("", |it| it.as_str()));
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let mut request = request.body(Full::new(body))?;
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        // The service closes one that is idle for long, maybe while the request is on its way.
        if self.used.elapsed() > IDLE || self.connection.ready().await.is_err() {
            self.connection = connect(&self.url).await?;
        }
        let began = Instant::now();
        let answer = self.connection.send_request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        self.used = Instant::now();
        Ok(Answer {
            status,
            body,
            took: began.elapsed(),
        })
    }

    /// What is to be 2xx.
    pub async fn ask(&mut self, method: Method, path: &str, body: Bytes) -> Result<Answer> {
        let answer = self.send(method, path, body).await?;
        if !answer.status.is_success() {
            let said = String::from_utf8_lossy(&answer.body);
            return Err(format!("{path} is {}: {said:.300}", answer.status).into());
        }
        Ok(answer)
    }

    pub async fn post(&mut self, path: &str, body: &Value) -> Result<Answer> {
        let body = Bytes::from(serde_json::to_vec(body)?);
        self.ask(Method::POST, path, body).await
    }
}

/// What an answer must be, so that nothing is timed that did not work.
#[derive(Clone)]
pub enum Expect {
    Success,
    /// Of a run.
    Ends {
        stdout: Option<String>,
    },
    /// How many there are of the array with this name.
    Count(&'static str, usize),
    /// At least.
    Bytes(usize),
}

impl Expect {
    pub fn prints(stdout: &str) -> Self {
        Self::Ends {
            stdout: Some(stdout.to_owned()),
        }
    }

    fn check(&self, body: &[u8]) -> Result<()> {
        let kept = match self {
            Self::Success => true,
            Self::Bytes(least) => body.len() >= *least,
            Self::Ends { stdout } => {
                let answer: Value = serde_json::from_slice(body)?;
                answer["exit_code"] == 0
                    && stdout.as_ref().is_none_or(|it| answer["stdout"] == **it)
            }
            Self::Count(name, wanted) => {
                let answer: Value = serde_json::from_slice(body)?;
                answer[name]
                    .as_array()
                    .is_some_and(|it| it.len() == *wanted)
            }
        };
        if kept {
            return Ok(());
        }
        let said = String::from_utf8_lossy(body);
        Err(format!("not what was asked for: {said:.300}").into())
    }
}

/// The same request again and again.
pub struct Call {
    client: Client,
    method: Method,
    path: String,
    body: Bytes,
    expect: Expect,
}

impl Call {
    pub async fn post(url: &str, path: &str, body: &Value, expect: Expect) -> Result<Self> {
        Ok(Self {
            client: Client::connect(url).await?,
            method: Method::POST,
            path: path.to_owned(),
            body: serde_json::to_vec(body)?.into(),
            expect,
        })
    }
}

#[async_trait(?Send)]
impl Work for Call {
    async fn once(&mut self) -> Result<Duration> {
        let (method, body) = (self.method.clone(), self.body.clone());
        let answer = self.client.ask(method, &self.path, body).await?;
        self.expect.check(&answer.body)?;
        Ok(answer.took)
    }
}
