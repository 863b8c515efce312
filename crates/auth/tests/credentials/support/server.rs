//! A server of keys that can misbehave.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use sandbox_auth::{Algorithm, Auth, Jwks, JwksTimes, JwksUrl, TokenRules, Tokens};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

#[derive(Clone)]
pub enum Answer {
    Keys(Vec<Value>),
    /// Keys, but only once the test says so.
    Held(Vec<Value>),
    Text(String),
    Status(u16),
    Redirect(String),
    /// Takes the request and says nothing.
    Silent,
    /// A byte now and then.
    Drip,
    /// Spaces, for as long as anybody listens.
    Endless,
    /// Ends before its length.
    Cut,
}

pub struct KeyServer {
    pub url: String,
    answer: Arc<Mutex<Answer>>,
    requests: watch::Receiver<usize>,
    hung_up: watch::Receiver<bool>,
    released: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Drop for KeyServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl KeyServer {
    pub async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks.json", listener.local_addr().unwrap());
        let answer = Arc::new(Mutex::new(answer));
        let (count, requests) = watch::channel(0);
        let (released, release) = watch::channel(false);
        let (hang_up, hung_up) = watch::channel(false);
        let answers = Arc::clone(&answer);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.send_modify(|count| *count += 1);
                let answer = answers.lock().unwrap().clone();
                // Ends when its reader does.
                tokio::spawn(respond(stream, answer, release.clone(), hang_up.clone()));
            }
        });
        Self {
            url,
            answer,
            requests,
            hung_up,
            released,
            task,
        }
    }

    pub async fn of(keys: &[Value]) -> Self {
        Self::start(Answer::Keys(keys.to_vec())).await
    }

    pub fn answer(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    pub fn release(&self) {
        self.released.send_replace(true);
    }

    pub fn requests(&self) -> usize {
        *self.requests.borrow()
    }

    pub async fn until_requests(&self, wanted: usize) {
        until(self.requests.clone(), |count| *count >= wanted).await;
    }

    /// Until who asked a silent server went away.
    pub async fn until_hung_up(&self) {
        until(self.hung_up.clone(), |hung_up| *hung_up).await;
    }

    /// Fetches when asked, at once; never by itself.
    pub fn auth(&self) -> Auth {
        self.auth_with(times(), None)
    }

    pub fn auth_with(&self, times: JwksTimes, only: Option<Algorithm>) -> Auth {
        let url = JwksUrl::parse(&self.url).unwrap();
        let tokens = Tokens::signed_by_one_of(Jwks::start(url, only, times), rules());
        Auth::on(Some(tokens), None)
    }
}

pub fn times() -> JwksTimes {
    JwksTimes {
        between_fetches: Duration::ZERO,
        max_age: Duration::from_secs(3600),
        retry: Duration::from_secs(3600),
        fetch_limit: Duration::from_secs(10),
    }
}

fn rules() -> TokenRules {
    TokenRules::default()
}

async fn until<T>(mut state: watch::Receiver<T>, reached: impl FnMut(&T) -> bool) {
    let wait = state.wait_for(reached);
    tokio::time::timeout(Duration::from_secs(20), wait)
        .await
        .expect("it comes to that")
        .unwrap();
}

async fn respond(
    mut stream: TcpStream,
    answer: Answer,
    mut release: watch::Receiver<bool>,
    hang_up: watch::Sender<bool>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await.unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }
    let _ = match answer {
        Answer::Keys(keys) => write(&mut stream, &json!({ "keys": keys }).to_string()).await,
        Answer::Held(keys) => {
            release.wait_for(|released| *released).await.unwrap();
            write(&mut stream, &json!({ "keys": keys }).to_string()).await
        }
        Answer::Text(text) => write(&mut stream, &text).await,
        Answer::Status(status) => {
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\n\r\n{{}}");
            stream.write_all(head.as_bytes()).await
        }
        Answer::Redirect(to) => {
            let head = format!("HTTP/1.1 302 x\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).await
        }
        Answer::Silent => {
            let ended = stream.read(&mut [0]).await;
            hang_up.send_replace(true);
            ended.map(drop)
        }
        Answer::Drip => drip(&mut stream).await,
        Answer::Endless => endless(&mut stream).await,
        Answer::Cut => {
            let text = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"keys\":[]}";
            stream.write_all(text.as_bytes()).await
        }
    };
}

async fn write(stream: &mut TcpStream, body: &str) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await
}

async fn drip(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    loop {
        stream.write_all(b" ").await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn endless(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    loop {
        stream.write_all(&[b' '; 4096]).await?;
    }
}
