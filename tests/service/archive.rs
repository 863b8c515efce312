//! Many files at once, in and out of a session.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
};

use serde_json::json;

use crate::support::{Answer, Client, SECRET, Service, token, until};

const COPY: &str = "/sessions/default/s/copy";
const ARCHIVE: &str = "/sessions/default/s/archive";
const TAR: (&str, &str) = ("content-type", "application/x-tar");

fn copy(client: &Client, path: &str, headers: &[(&str, &str)], tar: &[u8]) -> Answer {
    client.send("POST", path, headers, Some(tar))
}

fn names(tar: &[u8]) -> Vec<String> {
    let mut archive = tar::Archive::new(tar);
    archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned())
        .collect()
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, *data).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn files_come_as_json_all_or_none() {
    let service = Service::start();
    let files = json!({"files": [
        {"path": "a/b.txt", "content": "hä\n"},
        {"path": "/workspace/run", "content": "ZWNobyAx", "encoding": "base64", "mode": "0755"},
    ]});
    let answer = service.post(&format!("{COPY}?path=sub"), files);
    assert_eq!(
        (answer.status, &answer.body),
        (200, &json!({"written": 2, "bytes": 10}))
    );
    assert_eq!(service.bash("cat sub/a/b.txt; sub/run").stdout(), "hä\n1\n");
    for (bad, status) in [
        (
            json!({"files": [{"path": "ok", "content": ""}, {"path": "../x", "content": ""}]}),
            400,
        ),
        (
            json!({"files": [{"path": "ok", "content": ""}, {"path": "/etc/x", "content": ""}]}),
            400,
        ),
        (
            json!({"files": [{"path": "ok", "content": ""}, {"path": "sub", "content": ""}]}),
            422,
        ),
        (
            json!({"files": [{"path": "ok", "content": ""}, {"path": "ok/x", "content": ""}]}),
            422,
        ),
        (
            json!({"files": [{"path": "ok", "content": "!", "encoding": "base64"}]}),
            400,
        ),
        (json!({"files": {}}), 400),
        (json!({}), 400),
        (json!({"files": [], "more": 1}), 400),
    ] {
        let answer = service.post(COPY, bad.clone());
        assert_eq!(answer.status, status, "{bad}: {}", answer.body);
    }
    assert_eq!(service.bash("ls").stdout(), "sub\n");
    assert_eq!(
        service.post(COPY, json!({"files": []})).body,
        json!({"written": 0, "bytes": 0})
    );
}

#[test]
fn a_tree_goes_out_and_comes_back_in_every_packing() {
    let service = Service::start();
    let client = service.client();
    service.bash("mkdir -p d/e; echo one > d/e/f; ln -s e/f d/link; head -c 64m /dev/urandom > big; echo x > -odd; sha256sum big > sum");
    for (format, kind, headers) in [
        ("tar", "application/x-tar", vec![TAR]),
        (
            "tar.gz",
            "application/gzip",
            vec![("content-type", "application/gzip")],
        ),
        (
            "tar.zst",
            "application/zstd",
            vec![TAR, ("content-encoding", "zstd")],
        ),
    ] {
        let out = service.get(&format!("{ARCHIVE}?format={format}"));
        assert_eq!(out.status, 200);
        assert_eq!(out.header("content-type"), kind);
        assert_eq!(out.header("x-content-type-options"), "nosniff");
        assert_eq!(
            out.header("content-disposition"),
            format!("attachment; filename=\"s.{format}\"")
        );
        if format == "tar" {
            let mut found = names(&out.bytes);
            found.sort();
            let all = ["-odd", "big", "d", "d/e", "d/e/f", "d/link", "sum"];
            assert_eq!(found, all);
        }
        let path = format!("/sessions/default/{format}/copy");
        let done = copy(&client, &path, &headers, &out.bytes);
        assert_eq!(done.status, 200, "{format}: {}", done.body);
        assert_eq!(done.body["written"], 4, "{format}");
        let check = service.post(
            "/bash",
            json!({"session_id": format, "command": "sha256sum -c sum; cat d/link"}),
        );
        assert_eq!(check.stdout(), "big: OK\none\n", "{format}");
    }
    let part = service.get(&format!("{ARCHIVE}?path=d/e"));
    assert_eq!(names(&part.bytes), ["f"]);
}

#[test]
fn hostile_archives_are_refused_and_nothing_is_changed() {
    let service = Service::start();
    let client = service.client();
    service.bash("echo mine > kept");
    let raw = |name: &[u8], kind: tar::EntryType, target: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_mode(0o644);
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name);
        old.linkname[..target.len()].copy_from_slice(target);
        header.set_cksum();
        let mut tar = tar(&[("kept", b"theirs")]);
        tar.truncate(tar.len() - 1024);
        tar.extend(header.as_bytes());
        tar.extend([0; 1024]);
        tar
    };
    use tar::EntryType as Kind;
    for (what, bytes) in [
        ("absolute", raw(b"/tmp/x", Kind::Regular, b"")),
        ("parent", raw(b"../x", Kind::Regular, b"")),
        ("link out", raw(b"l", Kind::Symlink, b"/etc/passwd")),
        ("link up", raw(b"l", Kind::Symlink, b"../..")),
        ("hard link out", raw(b"l", Kind::Link, b"/etc/passwd")),
        ("device", raw(b"c", Kind::Char, b"")),
        ("fifo", raw(b"p", Kind::Fifo, b"")),
        ("garbage", vec![b'g'; 4096]),
        ("empty", Vec::new()),
    ] {
        let answer = copy(&client, COPY, &[TAR], &bytes);
        if what == "empty" {
            assert_eq!((answer.status, &answer.body["written"]), (200, &json!(0)));
            continue;
        }
        assert_eq!(
            (answer.status, answer.code()),
            (422, "invalid_archive"),
            "{what}: {}",
            answer.body
        );
    }
    let bomb = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let mut header = tar::Header::new_gnu();
        header.set_size(8 << 30);
        header.set_path("zeros").unwrap();
        header.set_cksum();
        encoder.write_all(header.as_bytes()).unwrap();
        encoder.write_all(&vec![0; 32 << 20]).unwrap();
        encoder.finish().unwrap()
    };
    let answer = copy(
        &client,
        COPY,
        &[("content-type", "application/gzip")],
        &bomb,
    );
    assert_eq!((answer.status, answer.code()), (413, "too_large"));
    for headers in [
        vec![("content-type", "text/plain")],
        vec![("content-type", "application/zip")],
        vec![TAR, ("content-encoding", "br")],
        vec![
            ("content-type", "application/gzip"),
            ("content-encoding", "gzip"),
        ],
        vec![],
    ] {
        let answer = copy(&client, COPY, &headers, &tar(&[("kept", b"theirs")]));
        assert_eq!(answer.status, 415, "{headers:?}: {}", answer.body);
    }
    for query in [
        "?path=..",
        "?path=/etc",
        "?path=.sandbox",
        "?path=kept",
        "?extra=1",
        "?path=",
    ] {
        let answer = copy(
            &client,
            &format!("{COPY}{query}"),
            &[TAR],
            &tar(&[("x", b"")]),
        );
        assert!(
            matches!(answer.status, 400 | 422),
            "{query}: {}",
            answer.body
        );
    }
    assert_eq!(
        service
            .bash("ls -A --ignore=.sandbox; cat kept; ls .sandbox")
            .stdout(),
        "kept\nmine\nartifacts\n"
    );
}

#[test]
fn an_upload_that_breaks_off_changes_nothing() {
    let service = Service::start_with(&[("SANDBOX_BODY_TIMEOUT", "1")]);
    service.bash("echo mine > kept");
    let bytes = tar(&[("kept", b"theirs"), ("more", &[b'x'; 100_000])]);
    let address = service.url.strip_prefix("http://").unwrap();
    let head = format!(
        "POST {COPY} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-tar\r\ncontent-length: {}\r\n\r\n",
        bytes.len()
    );
    // A client that goes, one that ends its half, and one that stands still.
    let send = || {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(head.as_bytes()).unwrap();
        socket.write_all(&bytes[..50_000]).unwrap();
        socket
    };
    drop(send());
    let half = send();
    half.shutdown(Shutdown::Write).unwrap();
    let mut still = send();
    let mut answer = String::new();
    let _ = still.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("request_timeout"), "{answer}");
    until("nothing is left", || {
        service
            .bash("ls -A --ignore=.sandbox; cat kept; ls .sandbox")
            .stdout()
            == "kept\nmine\nartifacts\n"
    });
}

#[test]
fn the_limits_of_operator_and_session_hold() {
    let service = Service::start_with(&[("SANDBOX_COPY_LIMIT", "100k")]);
    let client = service.client();
    let large = copy(&client, COPY, &[TAR], &tar(&[("f", &[b'x'; 101 * 1024])]));
    assert_eq!((large.status, large.code()), (413, "body_too_large"));
    let made = service.post(
        "/sessions/default/small",
        json!({"limits": {"disk": "10k"}}),
    );
    assert_eq!(made.status, 201);
    let path = "/sessions/default/small/copy";
    let large = copy(&client, path, &[TAR], &tar(&[("f", &[b'x'; 11 * 1024])]));
    assert_eq!(
        (large.status, large.code()),
        (413, "too_large"),
        "{}",
        large.body
    );
    assert_eq!(
        copy(&client, path, &[TAR], &tar(&[("f", &[b'x'; 9 * 1024])])).status,
        200
    );
}

#[test]
fn archives_are_of_their_tenant_and_of_sessions_that_are() {
    let service = Service::start_with(&[("SANDBOX_JWT_SECRET", SECRET)]);
    let ours = service.client().with_token(&token(&["--tenant", "ours"]));
    let theirs = service.client().with_token(&token(&["--tenant", "theirs"]));
    let bytes = tar(&[("f", b"secret")]);
    let path = "/sessions/ours/s";
    assert_eq!(
        ours.send("GET", &format!("{path}/archive"), &[], None)
            .status,
        404
    );
    assert_eq!(
        copy(&ours, &format!("{path}/copy"), &[TAR], &bytes).status,
        200
    );
    assert_eq!(
        copy(&theirs, &format!("{path}/copy"), &[TAR], &bytes).status,
        403
    );
    assert_eq!(
        theirs
            .send("GET", &format!("{path}/archive"), &[], None)
            .status,
        403
    );
    assert_eq!(
        service
            .client()
            .send("GET", &format!("{path}/archive"), &[], None)
            .status,
        401
    );
    let out = ours.send("GET", &format!("{path}/archive"), &[], None);
    assert_eq!(names(&out.bytes), ["f"]);
    for (query, status) in [
        ("path=missing", 404),
        ("path=../..", 400),
        ("format=zip", 400),
        ("x=1", 400),
    ] {
        let answer = ours.send("GET", &format!("{path}/archive?{query}"), &[], None);
        assert_eq!(answer.status, status, "{query}: {}", answer.body);
    }
}
