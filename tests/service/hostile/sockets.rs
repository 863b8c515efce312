//! What is wrong below HTTP, or on its edge: bytes on a socket.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
    time::{Duration, Instant},
};

use serde_json::json;

use super::{assert_nothing_changed, assert_works};
use crate::support::{Service, processes_with, until};

const WAIT: Duration = Duration::from_secs(30);
const JSON: &str = "Host: localhost\r\nContent-Type: application/json\r\n";

fn connect(service: &Service) -> TcpStream {
    let stream = TcpStream::connect(service.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream.set_write_timeout(Some(WAIT)).unwrap();
    stream
}

/// All that the service says until it closes the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    // A reset is an end too.
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

fn talk(service: &Service, bytes: &[u8]) -> String {
    let mut stream = connect(service);
    // The service may close while it is still being sent to.
    let _ = stream.write_all(bytes);
    rest(stream)
}

/// The status of every answer in what the service said.
fn statuses(said: &str) -> Vec<u16> {
    said.split("HTTP/1.1 ")
        .skip(1)
        .map(|answer| answer[..3].parse().unwrap())
        .collect()
}

fn bash(command: &str) -> String {
    json!({"session_id": "s", "command": command}).to_string()
}

#[test]
fn what_is_not_http_is_closed_and_never_a_fault_of_ours() {
    let service = Service::start();
    let huge = "x".repeat(1 << 20);
    let many: String = (0..2000).map(|i| format!("X-{i}: y\r\n")).collect();
    for (what, request, expected) in [
        ("garbage", "\0\u{1}\u{2}\r\n\r\n".to_owned(), &[400][..]),
        ("TLS", "\u{16}\u{3}\u{1}\u{2}".to_owned() + &huge, &[400]),
        (
            "HTTP/2",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(),
            &[400, 505],
        ),
        ("no version", "GET /healthz\r\n\r\n".into(), &[400]),
        (
            "HTTP/9",
            "GET /healthz HTTP/9.9\r\n\r\n".into(),
            &[400, 505],
        ),
        (
            "a huge path",
            format!("GET /{huge} HTTP/1.1\r\n\r\n"),
            &[414, 431],
        ),
        (
            "a huge header",
            format!("GET /healthz HTTP/1.1\r\nX: {huge}\r\n\r\n"),
            &[431],
        ),
        (
            "a huge token",
            format!("GET /sessions HTTP/1.1\r\nAuthorization: Bearer {huge}\r\n\r\n"),
            &[431],
        ),
        (
            "many headers",
            format!("GET /healthz HTTP/1.1\r\n{many}\r\n"),
            &[431],
        ),
        (
            "a folded header",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n".into(),
            &[400],
        ),
        (
            "a header with NUL",
            "GET /healthz HTTP/1.1\r\nHost: x\0y\r\n\r\n".into(),
            &[400],
        ),
        (
            "a space before the colon",
            format!("POST /bash HTTP/1.1\r\n{JSON}Content-Length : 2\r\n\r\n{{}}"),
            &[400],
        ),
        (
            "two lengths",
            format!(
                "POST /bash HTTP/1.1\r\n{JSON}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}"
            ),
            &[400],
        ),
        (
            "a signed length",
            format!("POST /bash HTTP/1.1\r\n{JSON}Content-Length: +2\r\n\r\n{{}}"),
            &[400],
        ),
        (
            "a negative length",
            format!("POST /bash HTTP/1.1\r\n{JSON}Content-Length: -1\r\n\r\n{{}}"),
            &[400],
        ),
        (
            "an endless length",
            format!(
                "POST /bash HTTP/1.1\r\n{JSON}Content-Length: 99999999999999999999\r\n\r\n{{}}"
            ),
            &[400],
        ),
        (
            "a length beyond the limit",
            format!(
                "POST /bash HTTP/1.1\r\n{JSON}Connection: close\r\nContent-Length: 18446744073709551615\r\n\r\n{{}}"
            ),
            &[413, 431],
        ),
        (
            "chunked that is not last",
            format!(
                "POST /bash HTTP/1.1\r\n{JSON}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"
            ),
            &[400],
        ),
        (
            "an unknown transfer coding",
            format!("POST /bash HTTP/1.1\r\n{JSON}Transfer-Encoding: x\r\n\r\n0\r\n\r\n"),
            &[400],
        ),
        (
            "a chunk without a size",
            format!(
                "POST /bash HTTP/1.1\r\n{JSON}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n"
            ),
            &[400],
        ),
        (
            "a chunk of an endless size",
            format!(
                "POST /bash HTTP/1.1\r\n{JSON}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{{}}"
            ),
            &[400],
        ),
    ] {
        let began = Instant::now();
        let said = talk(&service, request.as_bytes());
        let statuses = statuses(&said);
        // A client that still sends may see a reset rather than the answer.
        let right = match statuses.as_slice() {
            [] => request.len() > 100_000 || what == "HTTP/2",
            [first, ..] => expected.contains(first),
        };
        assert!(right, "{what}: {said}");
        assert!(began.elapsed() < WAIT, "{what}");
        assert!(!said.contains("works"));
    }
    assert_nothing_changed(&service);
    assert_works(&service);
}

#[test]
fn a_request_cannot_hide_another_one() {
    let service = Service::start();
    let hidden = "DELETE /sessions/default/s HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(service.bash("echo 1").stdout(), "1\n");
    let body = bash("echo seen");
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for order in [
        format!(
            "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n",
            chunked.len()
        ),
        format!(
            "Transfer-Encoding: chunked\r\nContent-Length: {}\r\n",
            chunked.len()
        ),
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n".to_owned(),
    ] {
        let said = talk(
            &service,
            format!("POST /bash HTTP/1.1\r\n{JSON}{order}\r\n{chunked}{hidden}").as_bytes(),
        );
        // The chunks count and nothing after them does (RFC 9112, section 6.3).
        assert_eq!(statuses(&said), [200], "{order}: {said}");
        assert!(said.contains("seen\\n"), "{said}");
    }
    // The second request is in the body of the first, whose length says so.
    let body = bash(&format!("echo '{}'", hidden.trim_end()));
    let request = format!(
        "POST /bash HTTP/1.1\r\n{JSON}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(statuses(&talk(&service, request.as_bytes())), [200]);
    // What is beyond the length is the next request, and no request.
    let body = bash("echo first");
    let request = format!(
        "POST /bash HTTP/1.1\r\n{JSON}Content-Length: {}\r\n\r\n{body}and more\r\n\r\n",
        body.len()
    );
    let said = talk(&service, request.as_bytes());
    assert_eq!(statuses(&said), [200, 400], "{said}");
    assert_eq!(
        service.bash("echo 1").body["meta"]["session_created"],
        false
    );
}

#[test]
fn requests_in_a_row_are_answered_in_their_order() {
    let service = Service::start();
    let mut all = String::new();
    for i in 0..20 {
        let body = bash(&format!("echo number-{i}-"));
        all += &format!(
            "POST /bash HTTP/1.1\r\n{JSON}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
    }
    all += "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let said = talk(&service, all.as_bytes());
    assert_eq!(statuses(&said), [200; 21]);
    let places: Vec<usize> = (0..20)
        .map(|i| said.find(&format!("number-{i}-")).unwrap())
        .collect();
    assert!(places.is_sorted());
}

#[test]
fn a_body_that_comes_in_drops_is_given_up_and_holds_nobody_else() {
    let service = Service::start_with(&[("SANDBOX_BODY_TIMEOUT", "2")]);
    let body = bash("echo works");
    let began = Instant::now();
    let mut slow: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = connect(&service);
            write!(
                stream,
                "POST /bash HTTP/1.1\r\n{JSON}Content-Length: {}\r\n\r\n",
                body.len()
            )
            .unwrap();
            stream
        })
        .collect();
    // A byte at a time, for longer than is waited.
    for byte in body.bytes().take(25) {
        for stream in &mut slow {
            let _ = stream.write_all(&[byte]);
        }
        assert_eq!(service.get("/healthz").status, 200);
        std::thread::sleep(Duration::from_millis(100));
    }
    for stream in slow {
        let said = rest(stream);
        assert_eq!(statuses(&said), [408], "{said}");
        assert!(said.contains("\"code\":\"request_timeout\""));
    }
    assert!(began.elapsed() < WAIT);
    assert_nothing_changed(&service);
    assert_works(&service);
}

#[test]
fn a_body_that_never_ends_or_begins_is_given_up() {
    let service = Service::start_with(&[("SANDBOX_BODY_TIMEOUT", "1")]);
    for head in [
        format!("POST /bash HTTP/1.1\r\n{JSON}Content-Length: 100\r\n\r\n"),
        format!("POST /bash HTTP/1.1\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n"),
        format!("POST /bash HTTP/1.1\r\n{JSON}Transfer-Encoding: chunked\r\n\r\nff\r\n{{"),
    ] {
        assert_eq!(statuses(&talk(&service, head.as_bytes())), [408], "{head}");
    }
    assert_nothing_changed(&service);
}

#[test]
fn a_client_that_closes_its_half_is_one_that_went_away() {
    let service = Service::start();
    let mark = format!("5{}", std::process::id() + 1_000_000);
    assert_eq!(service.bash("true").status, 200);
    let body = bash(&format!("exec sleep {mark}"));
    let mut stream = connect(&service);
    write!(
        stream,
        "POST /bash HTTP/1.1\r\n{JSON}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    until("the program runs", || !processes_with(&mark).is_empty());
    stream.shutdown(Shutdown::Write).unwrap();
    until("its run is ended", || processes_with(&mark).is_empty());
    assert_eq!(statuses(&rest(stream)), [0_u16; 0]);
    // In the middle of a head, and of a body.
    for part in [
        "POST /bash HT".to_owned(),
        format!("POST /bash HTTP/1.1\r\n{JSON}Content-Length: 100\r\n\r\n{{"),
    ] {
        let mut stream = connect(&service);
        stream.write_all(part.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let statuses = statuses(&rest(stream));
        assert!(statuses.iter().all(|status| *status == 400), "{statuses:?}");
    }
    assert_works(&service);
}

#[test]
fn a_body_is_asked_for_only_when_it_is_wanted() {
    let service = Service::start();
    let expect = |length: usize, kind: &str| {
        let mut stream = connect(&service);
        write!(
            stream,
            "POST /bash HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nConnection: close\r\n\
             Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
        )
        .unwrap();
        stream
    };
    for (length, kind, status) in [(1 << 40, "application/json", 413), (10, "text/plain", 415)] {
        assert_eq!(statuses(&rest(expect(length, kind))), [status]);
    }
    let body = bash("echo asked");
    let mut stream = expect(body.len(), "application/json");
    let mut first = [0; 25];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).unwrap();
    let said = rest(stream);
    assert!(said.contains("asked\\n"), "{said}");
}
