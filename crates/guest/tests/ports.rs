//! Connections to what listens in the sandbox.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{io, time::Duration};

use guest_client::{PortError, PortStream};
use hyper_util::rt::TokioIo;
use support::TestGuest;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

const SOON: Duration = Duration::from_secs(20);

async fn soon<T>(work: impl Future<Output = T>) -> T {
    timeout(SOON, work).await.expect("it ends in time")
}

/// A connection through the guest, and its other end.
async fn pair(guest: &TestGuest) -> (PortStream, TcpStream) {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    let (stream, accepted) =
        soon(async { tokio::join!(guest.client.open_port(port), server.accept()) }).await;
    (stream.unwrap(), accepted.unwrap().0)
}

async fn all(mut stream: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    soon(stream.read_to_end(&mut read)).await.map(|_| read)
}

#[tokio::test]
async fn each_way_has_an_end_of_its_own() {
    let guest = TestGuest::start().await;
    let (mut ours, mut theirs) = pair(&guest).await;
    ours.write_all(b"question").await.unwrap();
    ours.shutdown().await.unwrap();
    assert_eq!(all(&mut theirs).await.unwrap(), b"question");
    theirs.write_all(b"answer").await.unwrap();
    drop(theirs);
    assert_eq!(all(&mut ours).await.unwrap(), b"answer");

    let (mut ours, mut theirs) = pair(&guest).await;
    theirs.write_all(b"news").await.unwrap();
    theirs.shutdown().await.unwrap();
    assert_eq!(all(&mut ours).await.unwrap(), b"news");
    ours.write_all(b"thanks").await.unwrap();
    let mut thanks = [0; 6];
    soon(theirs.read_exact(&mut thanks)).await.unwrap();
    assert_eq!(&thanks, b"thanks");
    ours.shutdown().await.unwrap();
    assert_eq!(all(&mut theirs).await.unwrap(), b"");
}

#[tokio::test]
async fn a_port_that_is_not_open_says_so_at_once() {
    let guest = TestGuest::start().await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let began = std::time::Instant::now();
    for port in [port, 0] {
        let refused = soon(guest.client.open_port(port)).await.err().unwrap();
        assert!(matches!(refused, PortError::NotOpen), "{refused:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn ipv6_alone_is_found_too() {
    let guest = TestGuest::start().await;
    let Ok(server) = TcpListener::bind("[::1]:0").await else {
        return;
    };
    let port = server.local_addr().unwrap().port();
    let stream = soon(guest.client.open_port(port)).await;
    assert!(stream.is_ok());
}

#[tokio::test]
async fn whoever_goes_away_takes_the_connection_along() {
    let guest = TestGuest::start().await;
    let (ours, theirs) = pair(&guest).await;
    drop(ours);
    assert_eq!(all(theirs).await.unwrap(), b"");

    // Also one that does not read what was sent to it.
    let (mut ours, mut theirs) = pair(&guest).await;
    let flood = vec![7; 64 * 1024];
    while timeout(Duration::from_millis(300), ours.write_all(&flood))
        .await
        .is_ok()
    {}
    drop(ours);
    let writing = async {
        loop {
            if theirs.write_all(&flood).await.is_err() {
                return;
            }
        }
    };
    soon(writing).await;

    let (mut ours, theirs) = pair(&guest).await;
    theirs.set_zero_linger().unwrap();
    drop(theirs);
    assert!(all(&mut ours).await.is_err(), "a reset is no good end");
    let writing = async { while ours.write_all(&flood).await.is_ok() {} };
    soon(writing).await;
}

#[tokio::test]
async fn the_end_of_the_sandbox_is_an_error() {
    let guest = TestGuest::start().await;
    let (mut ours, _theirs) = pair(&guest).await;
    drop(guest);
    assert!(all(&mut ours).await.is_err());
}

#[tokio::test]
async fn much_goes_through_both_ways_and_slow_readers_hold_the_rest() {
    const BYTES: usize = 48 * 1024 * 1024;
    let guest = TestGuest::start().await;
    let (ours, theirs) = pair(&guest).await;
    let (mut from_us, mut to_us) = tokio::io::split(ours);
    let (mut from_them, mut to_them) = theirs.into_split();
    let block: Vec<u8> = (0..251_u8).cycle().take(100_003).collect();
    let part = block.clone();
    let sending = tokio::spawn(async move {
        let mut left = BYTES;
        while left > 0 {
            let now = left.min(part.len());
            to_us.write_all(&part[..now]).await.unwrap();
            left -= now;
        }
        to_us.shutdown().await.unwrap();
    });
    let echo = tokio::spawn(async move {
        tokio::io::copy(&mut from_them, &mut to_them).await.unwrap();
    });
    // While nobody reads, little is on the way.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!sending.is_finished());
    // A stream that stalls holds up no other.
    assert_eq!(
        soon(guest.bash("echo there")).await.stdout.to_text(),
        "there\n"
    );
    let mut read = 0;
    let mut buffer = vec![0; block.len()];
    while read < BYTES {
        let now = block.len().min(BYTES - read);
        soon(from_us.read_exact(&mut buffer[..now])).await.unwrap();
        assert!(buffer[..now] == block[..now], "at {read}");
        read += now;
    }
    assert_eq!(all(from_us).await.unwrap(), b"");
    soon(sending).await.unwrap();
    soon(echo).await.unwrap();
}

#[tokio::test]
async fn connections_are_counted_and_leave_room_for_the_rest() {
    let guest = TestGuest::start().await;
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    let accepting = tokio::spawn(async move {
        let mut kept = Vec::new();
        loop {
            kept.push(server.accept().await.unwrap());
        }
    });
    let mut open = Vec::new();
    let refused = loop {
        match soon(guest.client.open_port(port)).await {
            Ok(stream) => open.push(stream),
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, PortError::TooMany), "{refused:?}");
    assert_eq!(open.len(), 256);
    assert_eq!(
        soon(guest.bash("echo there")).await.stdout.to_text(),
        "there\n"
    );
    accepting.abort();
    open.clear();
    drop(open);
    let again = async {
        loop {
            match guest.client.open_port(port).await {
                Err(PortError::TooMany) => tokio::time::sleep(Duration::from_millis(5)).await,
                other => return other,
            }
        }
    };
    assert!(matches!(soon(again).await, Err(PortError::NotOpen)));
}

/// A web server as people start them.
async fn web_server(guest: &TestGuest) -> u16 {
    guest.bash("echo page > page.txt").await;
    let command = "nohup /usr/bin/python3 -u -c '
import http.server
handler = http.server.SimpleHTTPRequestHandler
handler.protocol_version = \"HTTP/1.1\"
server = http.server.ThreadingHTTPServer((\"127.0.0.1\", 0), handler)
print(server.server_port, flush=True)
server.serve_forever()' > port.txt 2>/dev/null & \
        until [ -s port.txt ]; do sleep 0.02; done; cat port.txt";
    let port = soon(guest.bash(command)).await.stdout.to_text();
    port.trim().parse().unwrap()
}

#[tokio::test]
async fn a_web_server_is_spoken_to_over_one_connection() {
    let guest = TestGuest::start().await;
    let port = web_server(&guest).await;
    let stream = guest.client.open_port(port).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    for (path, status) in [("/page.txt", 200), ("/page.txt", 200), ("/none", 404)] {
        let request = http::Request::get(path)
            .header("host", "sandbox")
            .body(http_body_util::Empty::<bytes::Bytes>::new())
            .unwrap();
        soon(sender.ready()).await.unwrap();
        let answer = soon(sender.send_request(request)).await.unwrap();
        assert_eq!(answer.status(), status);
        let body = http_body_util::BodyExt::collect(answer.into_body());
        soon(body).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_upgraded_goes_on_both_ways() {
    let guest = TestGuest::start().await;
    let (mut ours, mut theirs) = pair(&guest).await;
    let server = tokio::spawn(async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(theirs.read_u8().await.unwrap());
        }
        let accepted = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\
            connection: upgrade\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
        theirs.write_all(accepted).await.unwrap();
        // One masked frame of text in, and its text out.
        let mut frame = [0; 11];
        theirs.read_exact(&mut frame).await.unwrap();
        assert_eq!(frame[..2], [0x81, 0x85]);
        let (mask, text) = (&frame[2..6], &frame[6..]);
        let text = text.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b);
        let answer: Vec<u8> = [0x81, 0x05].into_iter().chain(text).collect();
        theirs.write_all(&answer).await.unwrap();
        theirs
    });
    ours.write_all(
        b"GET / HTTP/1.1\r\nhost: s\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
          sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    )
    .await
    .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(soon(ours.read_u8()).await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"));
    ours.write_all(&[
        0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
    ])
    .await
    .unwrap();
    let mut answer = [0; 7];
    soon(ours.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"\x81\x05Hello");
    drop(soon(server).await.unwrap());
}
