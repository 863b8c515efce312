//! A server that answers as it is told, and keeps what it was asked.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use backend_e2b::{E2bBackend, E2bConfig, Secret, Servers};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use sandbox_core::SandboxId;
use serde_json::Value;
use tokio::net::TcpListener;

pub const KEY: &str = "e2b_00112233445566778899aabbccddeeff00112233";
pub const OWNER: &str = "owner-1";

#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
}

#[derive(Clone)]
pub struct Answer {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
}

impl Answer {
    pub fn new(status: u16, body: impl ToString) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.to_string(),
        }
    }

    pub fn error(status: u16, message: &str) -> Self {
        Self::new(
            status,
            serde_json::json!({"code": status, "message": message}),
        )
    }

    pub fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }
}

#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    asked: Vec<Asked>,
}

pub struct Fake {
    pub origin: String,
    script: Arc<Mutex<Script>>,
}

impl Fake {
    /// Gives these answers, one after the other, and then 418.
    pub async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(Mutex::new(Script {
            answers: answers.into_iter().collect(),
            asked: Vec::new(),
        }));
        let serving = Arc::clone(&script);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let script = Arc::clone(&serving);
                let service = service_fn(move |request| answer(Arc::clone(&script), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
            }
        });
        Self { origin, script }
    }

    pub fn backend(&self) -> Arc<E2bBackend> {
        backend_at(&self.origin)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.script.lock().unwrap().asked.clone()
    }

    /// Method and path of all that it was asked.
    pub fn lines(&self) -> Vec<String> {
        let asked = self.asked();
        asked
            .iter()
            .map(|it| format!("{} {}", it.method, it.path))
            .collect()
    }
}

pub fn backend_at(origin: &str) -> Arc<E2bBackend> {
    let servers = Servers::new("e2b.app", Some(origin), Some(origin)).unwrap();
    let secret = Secret::new("a secret of the service");
    let config = E2bConfig {
        template: "own-template".into(),
        ..E2bConfig::new(
            Secret::new(KEY),
            servers,
            OWNER,
            secret,
            Bytes::from_static(b"guest"),
        )
    };
    E2bBackend::new(config).unwrap()
}

async fn answer(
    script: Arc<Mutex<Script>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut script = script.lock().unwrap();
    script.asked.push(Asked {
        method: parts.method,
        path: parts.uri.to_string(),
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    });
    let told = script.answers.pop_front();
    let told = told.unwrap_or_else(|| Answer::error(418, "nothing is left to say"));
    let mut response = Response::builder().status(told.status);
    for (name, value) in told.headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::from(told.body)).unwrap())
}

/// As an item of a list.
pub fn listed(theirs: &str, id: &SandboxId, owner: &str, started: &str, state: &str) -> Value {
    serde_json::json!({
        "templateID": "t", "sandboxID": theirs, "clientID": "c",
        "startedAt": started, "endAt": "2026-01-02T04:04:05Z",
        "envdVersion": "0.6.4", "cpuCount": 2, "memoryMB": 512, "diskSizeMB": 1024,
        "state": state,
        "metadata": {"sandboxd-owner": owner, "sandboxd-sandbox": id.as_str(),
                     "sandboxd-internet": "false"},
        "aFieldOfTomorrow": {"x": 1},
    })
}

pub fn created(theirs: &str) -> Value {
    serde_json::json!({
        "templateID": "own-template", "sandboxID": theirs, "clientID": "c",
        "envdVersion": "0.6.4", "envdAccessToken": "envd-token-of-it",
        "trafficAccessToken": "traffic-token-of-it", "domain": null,
    })
}

pub fn none() -> Answer {
    Answer::new(200, "[]")
}
