//! The public wire contract, spoken by hand: Connect with JSON over HTTP/2.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::UnixStream;

#[derive(Clone)]
pub struct Wire(SendRequest<Full<Bytes>>);

impl Wire {
    pub async fn connect(stream: UnixStream) -> Self {
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> http::Response<Incoming> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://guest{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        self.0.clone().send_request(request).await.unwrap()
    }

    /// A unary call: its answer, or its error with the HTTP status.
    pub async fn call(&self, procedure: &str, message: Value) -> Result<Value, (u16, Value)> {
        let headers = [
            ("content-type", "application/json"),
            ("connect-protocol-version", "1"),
        ];
        let response = self
            .send(
                "POST",
                &format!("/{procedure}"),
                &headers,
                message.to_string(),
            )
            .await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let value = serde_json::from_slice(&body).unwrap();
        if status == StatusCode::OK {
            Ok(value)
        } else {
            Err((status.as_u16(), value))
        }
    }

    /// A call that is answered by a stream.
    pub async fn stream(
        &self,
        procedure: &str,
        headers: &[(&str, &str)],
        message: Value,
    ) -> Frames {
        let mut all = vec![
            ("content-type", "application/connect+json"),
            ("connect-protocol-version", "1"),
        ];
        all.extend(headers);
        let response = self
            .send("POST", &format!("/{procedure}"), &all, frame(&message))
            .await;
        assert_eq!(response.status(), StatusCode::OK);
        Frames::of(response)
    }
}

pub fn frame(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    let mut frame = vec![0];
    frame.extend((text.len() as u32).to_be_bytes());
    frame.extend(text.as_bytes());
    frame
}

pub struct Frames {
    body: Incoming,
    buffer: BytesMut,
}

impl Frames {
    pub fn of(answer: http::Response<Incoming>) -> Self {
        Self {
            body: answer.into_body(),
            buffer: BytesMut::new(),
        }
    }

    /// The next frame; its first byte says whether it is the last.
    pub async fn next(&mut self) -> (bool, Value) {
        tokio::time::timeout(Duration::from_secs(20), self.read())
            .await
            .expect("a frame comes in time")
    }

    async fn read(&mut self) -> (bool, Value) {
        loop {
            if self.buffer.len() >= 5 {
                let length = u32::from_be_bytes(self.buffer[1..5].try_into().unwrap()) as usize;
                if self.buffer.len() >= 5 + length {
                    let last = self.buffer[0] == 2;
                    self.buffer.advance(5);
                    let payload = self.buffer.split_to(length);
                    return (last, serde_json::from_slice(&payload).unwrap());
                }
            }
            let frame = self
                .body
                .frame()
                .await
                .expect("the stream ends with a frame");
            if let Ok(data) = frame.unwrap().into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    /// All events up to the last frame, which must carry no error.
    pub async fn events(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            match self.next().await {
                (true, end) => {
                    assert_eq!(end, serde_json::json!({}));
                    return events;
                }
                (false, message) => events.push(message["event"].clone()),
            }
        }
    }
}
