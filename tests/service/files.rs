//! Files and search, and what a workspace can be made to hold against them.

use serde_json::{Value, json};

use crate::support::{Answer, Service};

fn call(service: &Service, route: &str, mut body: Value) -> Answer {
    body["session_id"] = json!("s");
    service.post(route, body)
}

#[test]
fn files_are_written_read_edited_moved_listed_and_deleted() {
    let service = Service::start();
    let written = call(
        &service,
        "/write",
        json!({"path": "d/a.txt", "content": "one\ntwo\nthree\n"}),
    );
    assert_eq!(
        (written.status, &written.body),
        (
            200,
            &json!({"path": "d/a.txt", "size_bytes": 14, "created": true})
        )
    );
    let read = call(
        &service,
        "/read",
        json!({"path": "/workspace/d/a.txt", "offset": 2, "limit": 1}),
    );
    assert_eq!(
        read.body,
        json!({"content": "two\n", "path": "d/a.txt", "offset": 2, "lines": 1, "total_lines": 3, "truncated": true, "size_bytes": 14})
    );
    let edit = json!({"path": "d/a.txt", "old_string": "two", "new_string": "2"});
    assert_eq!(
        call(&service, "/edit", edit.clone()).body["replacements"],
        1
    );
    let none = call(&service, "/edit", edit);
    assert_eq!((none.status, none.code()), (409, "no_match"));
    let several = call(
        &service,
        "/edit",
        json!({"path": "d/a.txt", "old_string": "e", "new_string": "E"}),
    );
    assert_eq!((several.status, several.code()), (409, "several_matches"));
    assert!(
        several.body["detail"].as_str().unwrap().contains('3'),
        "{}",
        several.body
    );
    call(
        &service,
        "/write",
        json!({"path": "d/a.txt", "content": "four\n", "append": true}),
    );
    assert_eq!(
        service.bash("cat d/a.txt").stdout(),
        "one\n2\nthree\nfour\n"
    );
    assert_eq!(
        call(
            &service,
            "/move",
            json!({"source": "d/a.txt", "destination": "e/b.txt"})
        )
        .status,
        200
    );
    let listed = call(&service, "/ls", json!({"path": "e"}));
    assert_eq!(
        listed.body["entries"][0]["name"], "b.txt",
        "{}",
        listed.body
    );
    let full = call(&service, "/delete", json!({"path": "e"}));
    assert_eq!((full.status, full.code()), (409, "directory_not_empty"));
    assert!(call(&service, "/delete", json!({"path": "e", "recursive": true})).status < 300);
    let gone = call(&service, "/read", json!({"path": "e/b.txt"}));
    assert_eq!((gone.status, gone.code()), (404, "not_found"));
}

#[test]
fn binary_files_keep_every_byte_and_answer_ranges() {
    let service = Service::start();
    call(
        &service,
        "/write",
        json!({"path": "x.png", "content": "AAH/gA==", "encoding": "base64"}),
    );
    let body = json!({"path": "x.png", "session_id": "s"}).to_string();
    let read = |headers: &[(&str, &str)]| {
        let mut all = vec![("content-type", "application/json")];
        all.extend(headers);
        service
            .client()
            .send("POST", "/read_binary", &all, Some(body.as_bytes()))
    };
    let whole = read(&[]);
    assert_eq!(
        (whole.status, whole.bytes.as_slice()),
        (200, &[0u8, 1, 255, 128][..])
    );
    assert_eq!(whole.header("content-type"), "image/png");
    assert_eq!(whole.header("x-content-type-options"), "nosniff");
    let part = read(&[("range", "bytes=1-2")]);
    assert_eq!((part.status, part.bytes.as_slice()), (206, &[1u8, 255][..]));
    assert_eq!(part.header("content-range"), "bytes 1-2/4");
    assert_eq!(read(&[("range", "bytes=9-")]).status, 416);
    let same = read(&[("if-none-match", whole.header("etag"))]);
    assert_eq!((same.status, same.bytes.len()), (304, 0));
    let text = call(&service, "/read", json!({"path": "x.png"}));
    assert_eq!((text.status, text.code()), (422, "not_text"));
}

#[test]
fn a_large_file_passes_both_ways() {
    let service = Service::start();
    let content = "0123456789abcdef".repeat(1024 * 1024);
    let written = call(
        &service,
        "/write",
        json!({"path": "big", "content": content}),
    );
    assert_eq!(written.body["size_bytes"], 16 << 20);
    let body = json!({"path": "big", "session_id": "s"}).to_string();
    let headers = [("content-type", "application/json")];
    let read = service
        .client()
        .send("POST", "/read_binary", &headers, Some(body.as_bytes()));
    assert!(read.bytes == content.as_bytes());
}

#[test]
fn paths_that_leave_the_workspace_or_cannot_be_are_refused() {
    let service = Service::start();
    let long = "a/".repeat(2500);
    for path in [
        "",
        "..",
        "../x",
        "a/../../x",
        "/etc/passwd",
        "/",
        "a\0b",
        &long,
        &"n".repeat(300),
    ] {
        for (route, body) in [
            ("/read", json!({"path": path})),
            ("/read_binary", json!({"path": path})),
            ("/write", json!({"path": path, "content": "x"})),
            (
                "/edit",
                json!({"path": path, "old_string": "a", "new_string": "b"}),
            ),
            ("/delete", json!({"path": path})),
            ("/move", json!({"source": path, "destination": "ok"})),
            ("/move", json!({"source": "ok", "destination": path})),
        ] {
            let answer = call(&service, route, body);
            assert_eq!(
                (answer.status, answer.code()),
                (400, "invalid_path"),
                "{route} {path:.20?}: {}",
                answer.body
            );
        }
    }
}

#[test]
fn odd_names_are_just_names() {
    let service = Service::start();
    for name in ["-rf", "a\nb", "a b", "$(touch pwned)", "ä", "--", "*"] {
        let answer = call(&service, "/write", json!({"path": name, "content": name}));
        assert_eq!(answer.status, 200, "{name:?}: {}", answer.body);
        assert_eq!(
            call(&service, "/read", json!({"path": name})).body["content"],
            name
        );
        assert!(call(&service, "/delete", json!({"path": name})).status < 300);
    }
    assert_eq!(service.bash("ls -A").stdout(), "");
}

#[test]
fn links_reach_only_what_the_sandbox_has() {
    let service = Service::start();
    service.bash("ln -s /etc/passwd p; ln -s loop loop; ln -s /proc/self/environ e; ln -s /proc/1/mem m; ln -s nowhere/x d");
    let passwd = call(&service, "/read", json!({"path": "p"}));
    assert_eq!(
        passwd.body["content"],
        service.bash("cat /etc/passwd").stdout()
    );
    assert_ne!(
        passwd.body["content"].as_str().unwrap(),
        std::fs::read_to_string("/etc/passwd").unwrap()
    );
    for path in ["loop", "e", "m", "d"] {
        for route in ["/read", "/read_binary"] {
            let answer = call(&service, route, json!({"path": path}));
            assert!(
                (400..500).contains(&answer.status),
                "{route} {path}: {} {}",
                answer.status,
                answer.body
            );
        }
    }
    let written = call(&service, "/write", json!({"path": "p", "content": "x"}));
    assert!((400..500).contains(&written.status), "{}", written.body);
}

#[test]
fn what_is_not_a_file_is_refused_and_never_waited_for() {
    let service = Service::start();
    service.bash("mkfifo fifo; ln -s /dev/zero zero; ln -s /dev/tty tty; mkdir dir; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"");
    for path in ["fifo", "zero", "tty", "sock"] {
        for (route, body) in [
            ("/read", json!({"path": path})),
            ("/read_binary", json!({"path": path})),
            (
                "/edit",
                json!({"path": path, "old_string": "a", "new_string": "b"}),
            ),
            (
                "/write",
                json!({"path": path, "content": "x", "append": true}),
            ),
        ] {
            let answer = call(&service, route, body);
            assert_eq!(
                (answer.status, answer.code()),
                (422, "not_a_regular_file"),
                "{route} {path}: {}",
                answer.body
            );
        }
    }
    let dir = call(&service, "/read", json!({"path": "dir"}));
    assert_eq!(dir.code(), "is_a_directory");
    assert_eq!(call(&service, "/grep", json!({"pattern": "x"})).status, 200);
}

#[test]
fn names_that_are_not_utf8_are_listed() {
    let service = Service::start();
    service.python("import os; open(b'a\\xff', 'w').close()");
    let listed = call(&service, "/ls", json!({"path": "."}));
    let names: Vec<_> = listed.body["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .filter(|name| *name != ".sandbox")
        .collect();
    assert_eq!(names, ["a\u{fffd}"]);
    assert_eq!(call(&service, "/glob", json!({"pattern": "*"})).status, 200);
    assert_eq!(call(&service, "/grep", json!({"pattern": "x"})).status, 200);
}

#[test]
fn grep_finds_and_its_patterns_are_never_options() {
    let service = Service::start();
    call(
        &service,
        "/write",
        json!({"path": "src/a.py", "content": "import os\n--pre x\nprint('ä b')\n"}),
    );
    call(
        &service,
        "/write",
        json!({"path": "b.txt", "content": "import x\n"}),
    );
    call(
        &service,
        "/write",
        json!({"path": ".gitignore", "content": "ignored\n"}),
    );
    call(
        &service,
        "/write",
        json!({"path": "ignored", "content": "import y\n"}),
    );
    let found = call(
        &service,
        "/grep",
        json!({"pattern": "^import", "glob": "*.py"}),
    );
    assert_eq!(
        found.body["matches"].as_array().unwrap().len(),
        1,
        "{}",
        found.body
    );
    let first = &found.body["matches"][0];
    assert_eq!(
        (
            &first["path"],
            &first["line"],
            &first["column"],
            &first["text"]
        ),
        (
            &json!("src/a.py"),
            &json!(1),
            &json!(1),
            &json!("import os")
        )
    );
    let all = call(
        &service,
        "/grep",
        json!({"pattern": "import", "output": "files"}),
    );
    assert_eq!(
        all.body["files"].as_array().unwrap().len(),
        2,
        "{}",
        all.body
    );
    let dash = call(&service, "/grep", json!({"pattern": "--pre"}));
    assert_eq!(
        dash.body["matches"].as_array().unwrap().len(),
        1,
        "{}",
        dash.body
    );
    for pattern in ["(", "a{99999999}", "((a{1000}){1000}){1000}"] {
        let bad = call(&service, "/grep", json!({"pattern": pattern}));
        assert_eq!(
            (bad.status, bad.code()),
            (400, "invalid_pattern"),
            "{pattern}"
        );
    }
    let literal = call(&service, "/grep", json!({"pattern": "('", "literal": true}));
    assert_eq!(literal.body["matches"][0]["line"], 3);
}

#[test]
fn glob_lists_the_newest_first() {
    let service = Service::start();
    service.bash("mkdir -p d; touch -d '2020-01-01' old.csv; touch -d '2021-01-01' d/mid.csv; touch new.csv .hidden.csv x.txt");
    let found = call(&service, "/glob", json!({"pattern": "**/*.csv"}));
    assert_eq!(
        found.body["paths"],
        json!(["new.csv", "d/mid.csv", "old.csv"])
    );
    let few = call(
        &service,
        "/glob",
        json!({"pattern": "**/*.csv", "max_results": 1}),
    );
    assert_eq!(
        (&few.body["paths"], &few.body["truncated"]),
        (&json!(["new.csv"]), &json!(true))
    );
}
