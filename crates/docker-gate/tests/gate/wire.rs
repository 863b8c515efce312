//! Requests that are not what they seem, and clients that are slow.

use std::time::Duration;

use docker_gate::Policy;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use crate::support::gate;

#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_what_it_seems() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    for (path, expected) in [
        ("/_ping", 200),
        ("/v1.41/_ping", 200),
        ("http://elsewhere/_ping", 200),
        ("/v1.24/_ping", 403),
        ("/v1.41//_ping", 403),
        ("//_ping", 403),
        ("/_ping/", 403),
        ("/./_ping", 403),
        ("/x/../_ping", 403),
        ("/%5fping", 403),
        ("/images/%2e%2e/json", 403),
        ("/images/..%2fcontainers/json", 403),
        ("/images/a/../../containers/json", 403),
        ("/containers/sandboxd-x%2f..%2f..%2finfo%3f/json", 403),
        ("/containers/sandboxd-x%00/json", 403),
        ("/containers/json?all=1&all=0", 400),
        ("/networks", 403),
        ("/images/json", 403),
        ("/containers/sandboxd-gatetest-absent/json", 404),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        let answer = gate.raw(request.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {expected} ")),
            "{path}: {answer}"
        );
        if expected == 403 {
            assert!(
                answer.contains(r#"{"message":"docker-gate: "#),
                "{path}: {answer}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_brings_one_request() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let second = "POST /containers/prune HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    for first in [
        // Two requests at once.
        "GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n".to_owned(),
        // Two lengths, or a length and chunks: what one reader takes as the body is
        // another one's next request.
        format!("GET /_ping HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: {}\r\n\r\n", second.len()),
        format!("GET /_ping HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: {}\r\n\r\n0\r\n\r\n", second.len()),
        "GET /_ping HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x, chunked\r\n\r\n0\r\n\r\n".to_owned(),
        // A stream to where there is none.
        "GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n".to_owned(),
        "GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n".to_owned(),
    ] {
        let answer = gate.raw(format!("{first}{second}").as_bytes()).await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{first}: {answer}");
        assert!(!answer.contains("ContainersDeleted"), "{first}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_has_no_business_here() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let request = b"GET /_ping HTTP/1.1\r\nHost: x\r\nOrigin: http://evil.example\r\n\r\n";
    assert!(gate.raw(request).await.starts_with("HTTP/1.1 403 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_have_a_size() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let big = " ".repeat(2 << 20);
    for path in ["/volumes/create", "/containers/create?name=sandboxd-x"] {
        let answer = gate.post(path, &big).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{path}: {answer}");
    }
    // Without a length said before.
    let request = b"POST /volumes/create HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut stream = gate.connect().await;
    stream.write_all(request).await.unwrap();
    stream
        .write_all(format!("{:x}\r\n{big}\r\n0\r\n\r\n", big.len()).as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let answer = gate
        .post("/containers/sandboxd-x/start", r#"{"Binds": ["/:/x"]}"#)
        .await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    // Calls without a body take none.
    let answer = gate
        .raw(b"GET /info HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{\"a\": [1]}")
        .await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_does_not_end_ends_the_connection() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let mut stream = gate.connect().await;
    stream
        .write_all(b"GET /_ping HTTP/1.1\r\nHost: x\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let ended = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
    assert!(ended.is_ok(), "the connection is still open");
}

#[tokio::test(flavor = "multi_thread")]
async fn to_attach_is_to_ask_for_the_stream() {
    let Some(gate) = gate(Policy::default()).await else {
        return;
    };
    let guest = gate.make_volume("guest").await;
    let id = gate
        .create("sandbox", gate.sandbox(&guest, &guest))
        .await
        .unwrap();
    let answer = gate
        .post(&format!("/containers/{id}/attach?stream=1"), "")
        .await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}
