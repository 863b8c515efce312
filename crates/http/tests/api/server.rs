//! The server on a real socket: slow, silent and vanishing clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, routing::get};
use futures::{StreamExt as _, stream};
use sandbox_http::{ServeLimits, serve};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};

const PATIENCE: Duration = Duration::from_secs(20);

struct Server {
    address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    /// Handlers that wait now.
    waiting: Arc<AtomicUsize>,
}

struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// `/wait` answers after `wait`, `/now` at once.
async fn server(limits: ServeLimits, wait: Duration) -> Server {
    let waiting = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&waiting);
    let router = Router::new()
        .route(
            "/wait",
            get(move || {
                counter.fetch_add(1, Ordering::SeqCst);
                let waiting = Waiting(Arc::clone(&counter));
                async move {
                    tokio::time::sleep(wait).await;
                    drop(waiting);
                    "done"
                }
            }),
        )
        .route("/now", get(async || "done"))
        .route(
            "/endless",
            get({
                let counter = Arc::clone(&waiting);
                async move || {
                    counter.fetch_add(1, Ordering::SeqCst);
                    let waiting = Waiting(counter);
                    let parts = stream::repeat("x".repeat(64 * 1024)).map(move |part| {
                        let _ = &waiting;
                        Ok::<_, std::convert::Infallible>(part)
                    });
                    Body::from_stream(parts)
                }
            }),
        );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(serve(listener, router, limits, async {
        let _ = stopped.await;
    }));
    Server {
        address,
        stop,
        task,
        waiting,
    }
}

impl Server {
    async fn connect(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn waiting(&self, count: usize) {
        timeout(PATIENCE, async {
            while self.waiting.load(Ordering::SeqCst) != count {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the handlers came or went");
    }
}

async fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut text))
        .await
        .expect("the server closed the connection")
        .unwrap();
    text
}

fn quick_headers() -> ServeLimits {
    ServeLimits {
        header_read_timeout: Duration::from_millis(200),
        ..ServeLimits::default()
    }
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_header_is_cut_off() {
    let server = server(quick_headers(), Duration::ZERO).await;
    for half in ["", "GET /now HT", "GET /now HTTP/1.1\r\nHost: x\r\n"] {
        assert_eq!(rest(server.connect(half).await).await, "", "{half:?}");
    }
}

#[tokio::test]
async fn a_header_that_is_too_large_is_refused() {
    let server = server(ServeLimits::default(), Duration::ZERO).await;
    let request = format!("GET /now HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    let answer = rest(server.connect(&request).await).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn a_client_that_goes_away_drops_its_handler() {
    let server = server(ServeLimits::default(), Duration::from_secs(3600)).await;
    let stream = server
        .connect("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    server.waiting(1).await;
    drop(stream);
    server.waiting(0).await;
}

#[tokio::test]
async fn a_client_that_stops_reading_is_cut_off() {
    let limits = ServeLimits {
        write_timeout: Duration::from_millis(200),
        ..ServeLimits::default()
    };
    let server = server(limits, Duration::ZERO).await;
    let stream = server
        .connect("GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    server.waiting(1).await;
    server.waiting(0).await;
    drop(stream);
}

#[tokio::test]
async fn connections_above_the_cap_wait_for_a_place() {
    let limits = ServeLimits {
        max_connections: 1,
        ..ServeLimits::default()
    };
    let server = server(limits, Duration::from_secs(3600)).await;
    let first = server
        .connect("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    server.waiting(1).await;
    let mut second = server
        .connect("GET /now HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await;
    let mut byte = [0];
    let early = timeout(Duration::from_millis(200), second.read(&mut byte)).await;
    assert!(early.is_err(), "the second connection was served");
    drop(first);
    assert!(rest(second).await.ends_with("done"));
}

#[tokio::test]
async fn a_shutdown_lets_requests_finish_and_takes_no_more() {
    let server = server(ServeLimits::default(), Duration::from_millis(300)).await;
    let stream = server
        .connect("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    server.waiting(1).await;
    server.stop.send(()).unwrap();
    assert!(rest(stream).await.ends_with("done"));
    timeout(PATIENCE, server.task).await.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_shutdown_ends_requests_whose_time_is_up() {
    let limits = ServeLimits {
        drain_timeout: Duration::from_millis(100),
        ..ServeLimits::default()
    };
    let server = server(limits, Duration::from_secs(3600)).await;
    let stream = server
        .connect("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    server.waiting(1).await;
    server.stop.send(()).unwrap();
    assert_eq!(rest(stream).await, "");
    timeout(PATIENCE, server.task).await.unwrap().unwrap();
    assert_eq!(server.waiting.load(Ordering::SeqCst), 0);
}
