//! A client of /processes/{id}/attach.

use std::{
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tungstenite::{
    Message, WebSocket,
    client::{IntoClientRequest as _, client},
    protocol::frame::coding::CloseCode,
};

use crate::support::Client;

/// Longer than anything here should take.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Socket(pub WebSocket<TcpStream>);

/// A frame, as a test looks at it.
#[derive(Debug, PartialEq)]
pub enum Frame {
    Stdout(Vec<u8>),
    Said(Value),
    Closed(Option<CloseCode>),
}

impl Socket {
    /// The status of the refusal, when it is refused.
    pub fn open(client: &Client, path: &str) -> Result<Self, u16> {
        let address = client.url.strip_prefix("http://").unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut request = format!("ws://{address}{path}")
            .into_client_request()
            .unwrap();
        if let Some(token) = &client.token {
            let bearer = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert("authorization", bearer);
        }
        match self::client(request, stream) {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response))) => {
                Err(response.status().as_u16())
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub fn write(&mut self, data: &[u8]) {
        self.0.send(Message::Binary(data.to_vec().into())).unwrap();
    }

    pub fn say(&mut self, value: Value) {
        self.0.send(Message::text(value.to_string())).unwrap();
    }

    pub fn next(&mut self) -> Frame {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Pings come all the time.
            assert!(Instant::now() < deadline, "nothing comes");
            match self.0.read() {
                Ok(Message::Binary(data)) => return Frame::Stdout(data.to_vec()),
                Ok(Message::Text(text)) => {
                    return Frame::Said(serde_json::from_str(text.as_str()).unwrap());
                }
                Ok(Message::Close(frame)) => return Frame::Closed(frame.map(|frame| frame.code)),
                Ok(_) => {}
                Err(
                    tungstenite::Error::ConnectionClosed
                    | tungstenite::Error::AlreadyClosed
                    | tungstenite::Error::Protocol(_),
                ) => return Frame::Closed(None),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The next frame of text of this type; what is printed before goes to `out`.
    pub fn until(&mut self, kind: &str, out: &mut Vec<u8>) -> Value {
        loop {
            match self.next() {
                Frame::Stdout(data) => out.extend(data),
                Frame::Said(said) if said["type"] == kind => return said,
                Frame::Said(_) => {}
                Frame::Closed(code) => panic!("closed before `{kind}`: {code:?}"),
            }
        }
    }

    /// What is printed, until it has this in it.
    pub fn until_printed(&mut self, text: &str) -> String {
        let mut out = Vec::new();
        while !String::from_utf8_lossy(&out).contains(text) {
            match self.next() {
                Frame::Stdout(data) => out.extend(data),
                Frame::Said(_) => {}
                Frame::Closed(code) => {
                    panic!(
                        "closed before `{text}`: {code:?}, {:?}",
                        String::from_utf8_lossy(&out)
                    )
                }
            }
        }
        String::from_utf8(out).unwrap()
    }

    /// A line of JSON, as stdio servers of MCP speak.
    pub fn call(&mut self, line: &Value) -> Value {
        self.write(format!("{line}\n").as_bytes());
        let mut out = Vec::new();
        loop {
            match self.next() {
                Frame::Stdout(data) => out.extend(data),
                Frame::Said(_) => {}
                Frame::Closed(code) => panic!("closed: {code:?}"),
            }
            if out.ends_with(b"\n") {
                return serde_json::from_slice(&out).unwrap();
            }
        }
    }
}

/// A request of JSON-RPC 2.0.
pub fn rpc(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}
