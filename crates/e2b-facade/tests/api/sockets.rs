//! WebSockets to programs, over a listener: what changes its protocol needs a connection.

use std::time::Duration;

use sandbox_http::{ServeLimits, serve};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};

use crate::support::{Api, Sandbox, Setup, start_with};

const PATIENCE: Duration = Duration::from_secs(20);

/// Agrees to any protocol but on `/plain`, and sends back what it gets.
const SERVER: &str = r#"
import socket, threading
def serve(stream):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        got = stream.recv(1)
        if not got: return
        head += got
    if b"GET /plain " in head:
        stream.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nplain")
        return stream.close()
    stream.sendall(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
    while got := stream.recv(100): stream.sendall(got)
    stream.close()
with socket.create_server(("127.0.0.1", 3000)) as listener:
    while True:
        stream, _ = listener.accept()
        threading.Thread(target=serve, args=(stream,), daemon=True).start()
"#;

struct Listener {
    address: std::net::SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    async fn start(api: &Api) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (router, limits) = (api.router.clone(), ServeLimits::default());
        let task = tokio::spawn(serve(listener, router, limits, std::future::pending()));
        Self { address, task }
    }

    /// Asks for a WebSocket; gives the status, and the connection behind the header.
    async fn ask(&self, sandbox: &Sandbox, path: &str) -> (u16, TcpStream) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             e2b-sandbox-id: {}\r\ne2b-sandbox-port: 3000\r\n\r\n",
            sandbox.id
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let status = head.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse();
        (status.unwrap(), stream)
    }

    async fn open(&self, sandbox: &Sandbox) -> TcpStream {
        let (status, mut stream) = self.ask(sandbox, "/").await;
        assert_eq!(status, 101);
        echo(&mut stream).await;
        stream
    }

    /// The refusal of one that is too many.
    async fn refused(&self, sandbox: &Sandbox) -> (u16, Value) {
        let (status, mut stream) = self.ask(sandbox, "/").await;
        assert_ne!(status, 101);
        let mut body = Vec::new();
        let said = async {
            loop {
                stream.read_buf(&mut body).await.unwrap();
                if let Ok(said) = serde_json::from_slice(&body) {
                    return said;
                }
            }
        };
        (status, timeout(PATIENCE, said).await.unwrap())
    }
}

async fn echo(stream: &mut TcpStream) {
    stream.write_all(b"hello").await.unwrap();
    let mut back = [0; 5];
    let read = timeout(PATIENCE, stream.read_exact(&mut back)).await;
    read.unwrap().unwrap();
    assert_eq!(&back, b"hello");
}

async fn serving(api: &Api, who: usize) -> Sandbox {
    let sandbox = api.create_as(who, json!({})).await;
    let line = format!("setsid python3 -c '{SERVER}' >/dev/null 2>&1 </dev/null & disown");
    api.shell(&sandbox, &line).await;
    let begun = std::time::Instant::now();
    while api.to(&sandbox, "3000", "GET", "/plain", "").await.status != 200 {
        assert!(begun.elapsed() < PATIENCE, "nothing listens");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    sandbox
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_so_many_sockets_and_none_takes_those_of_all() {
    let setup = Setup {
        sockets: (2, 3),
        ..Setup::default()
    };
    let api = start_with(setup).await;
    let listener = Listener::start(&api).await;
    let (one, two) = (serving(&api, 0).await, serving(&api, 0).await);
    let other = serving(&api, 1).await;

    let mut first = listener.open(&one).await;
    let second = listener.open(&two).await;
    assert_eq!((api.under_way("websocket"), api.under_way("port")), (2, 0));
    let (status, said) = listener.refused(&one).await;
    assert_eq!(
        (status, said),
        (
            429,
            json!({
                "sandboxId": one.id, "port": 3000, "code": 429,
                "message": "the tenant has as many WebSockets to ports as it may have",
            })
        )
    );
    // Requests have places of their own.
    let plain = api.to(&one, "3000", "GET", "/plain", "").await;
    assert_eq!(plain.text(), "plain");
    let _third = listener.open(&other).await;
    let (status, said) = listener.refused(&other).await;
    assert_eq!(status, 503);
    assert_eq!(
        said["message"],
        "the service has as many WebSockets to ports as it may have"
    );
    echo(&mut first).await;

    drop(second);
    let begun = std::time::Instant::now();
    let mut again = loop {
        let (status, stream) = listener.ask(&one, "/").await;
        if status == 101 {
            break stream;
        }
        assert_eq!(status, 429);
        assert!(
            begun.elapsed() < PATIENCE,
            "a place that is left stays taken"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    echo(&mut again).await;
    drop(again);
    // A sandbox that ends gives back what was open to it.
    let path = format!("/sandboxes/{}", one.id);
    assert_eq!(api.call("DELETE", &path, Value::Null).await.status, 204);
    let begun = std::time::Instant::now();
    let mut open = Vec::new();
    while open.len() < 2 {
        let (status, stream) = listener.ask(&two, "/").await;
        if status == 101 {
            open.push(stream);
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "the end of a sandbox frees its places"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(open);
    while api.under_way("websocket") > 1 {
        assert!(begun.elapsed() < PATIENCE, "what has ended is counted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
