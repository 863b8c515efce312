//! What runs have made: listed, fetched, kept, and gone with their session.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, Client, SECRET, Service, token, until};

const PLOT: &str = "import matplotlib.pyplot as plt\n\
                    plt.figure(figsize=(3, 2), dpi=100)\n\
                    plt.plot([1, 2, 3])\nplt.show()\n\
                    plt.figure()\nplt.bar([1, 2], [3, 4])\n";

fn artifacts(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.body["exit_code"], 0, "{}", answer.body);
    answer.body["artifacts"].as_array().unwrap().clone()
}

fn named<'a>(artifacts: &'a [Value], name: &str) -> &'a Value {
    artifacts
        .iter()
        .find(|artifact| artifact["name"] == name)
        .unwrap_or_else(|| panic!("no `{name}` in {artifacts:?}"))
}

fn path(artifact: &Value) -> String {
    format!("/artifacts/{}", artifact["id"].as_str().unwrap())
}

fn fetch(client: &Client, artifact: &Value, headers: &[(&str, &str)]) -> Answer {
    client.send("GET", &path(artifact), headers, None)
}

/// Width and height, when it is a PNG (its signature and first chunk) to the end.
fn png_size(bytes: &[u8]) -> (u32, u32) {
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!(&bytes[12..16], b"IHDR");
    assert_eq!(&bytes[bytes.len() - 8..bytes.len() - 4], b"IEND");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

fn sha256(service: &Service, bytes: &[u8]) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let write = service.post(
        "/write",
        json!({"session_id": "hash", "path": "f", "content": STANDARD.encode(bytes), "encoding": "base64"}),
    );
    assert_eq!(write.status, 200);
    let sum = service.post(
        "/bash",
        json!({"session_id": "hash", "command": "sha256sum < f | cut -c1-64"}),
    );
    sum.stdout().trim().to_owned()
}

#[test]
fn figures_that_are_shown_or_left_open_become_plots() {
    let service = Service::start();
    let answer = service.post(
        "/execute",
        json!({"session_id": "s", "code": PLOT, "timeout_seconds": 120}),
    );
    let made = artifacts(&answer);
    assert_eq!(made.len(), 2, "{made:?}");
    for artifact in &made {
        assert_eq!(
            (&artifact["kind"], &artifact["mime_type"]),
            (&json!("plot"), &json!("image/png"))
        );
        let fetched = fetch(&service.client(), artifact, &[]);
        assert_eq!(fetched.status, 200);
        assert_eq!(fetched.header("content-type"), "image/png");
        assert_eq!(fetched.header("x-content-type-options"), "nosniff");
        assert!(
            fetched
                .header("content-disposition")
                .starts_with("inline; filename=\"")
        );
        assert_eq!(artifact["size_bytes"], fetched.bytes.len());
        assert_eq!(artifact["sha256"], sha256(&service, &fetched.bytes));
        let (width, height) = png_size(&fetched.bytes);
        assert!(width >= 200 && height >= 100, "{width} x {height}");
    }
}

#[test]
fn a_data_frame_that_is_displayed_becomes_a_table() {
    let service = Service::start();
    let answer = service.post(
        "/execute",
        json!({
            "session_id": "s", "timeout_seconds": 120,
            "code": "import pandas as pd\ndisplay(pd.DataFrame({'n': range(1000), 'word': ['ä\"'] * 1000}))",
        }),
    );
    let made = artifacts(&answer);
    let table = made
        .iter()
        .find(|it| it["mime_type"] == "text/csv")
        .unwrap();
    assert_eq!(table["kind"], "table");
    let about = &table["table"];
    assert_eq!(about["rows_total"], 1000, "{about}");
    let columns: Vec<&str> = about["schema"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert!(columns.ends_with(&["n", "word"]), "{columns:?}");
    let csv = String::from_utf8(fetch(&service.client(), table, &[]).bytes).unwrap();
    assert_eq!(csv.lines().count(), 1001);
    assert!(csv.contains("999,\"ä\"\"\""), "{}", &csv[csv.len() - 60..]);
    // Anything else is shown as MIME bundles.
    let answer = service.post(
        "/execute",
        json!({"session_id": "s", "code": "display({'a': 1})"}),
    );
    assert_eq!(
        answer.body["results"][0]["text/plain"], "{'a': 1}",
        "{}",
        answer.body
    );
}

#[test]
fn files_that_a_run_makes_or_changes_are_found_and_others_are_not() {
    let service = Service::start();
    service.bash("echo old > untouched; echo old > changed; mkdir -p sub/__pycache__ node_modules");
    let answer = service.post(
        "/bash",
        json!({
            "session_id": "s",
            "command": "echo new > changed; echo a,b > sub/t.csv; printf '%%PDF-1.4' > r.pdf; \
                        tar cf x.tar changed; echo h > .hidden; echo c > sub/__pycache__/m.pyc; \
                        echo n > node_modules/n.js; ln -s /etc/passwd out; mkfifo fifo; : > empty; \
                        echo x > \"$(printf 'a\"b\\nä.html')\"",
        }),
    );
    let made = artifacts(&answer);
    let mut names: Vec<&str> = made.iter().map(|it| it["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "a\"b\nä.html",
            "changed",
            "empty",
            "r.pdf",
            "t.csv",
            "x.tar"
        ]
    );
    for (name, kind, mime) in [
        ("t.csv", "table", "text/csv"),
        ("r.pdf", "report", "application/pdf"),
        ("x.tar", "archive", "application/x-tar"),
    ] {
        let artifact = named(&made, name);
        assert_eq!(
            (&artifact["kind"], &artifact["mime_type"]),
            (&json!(kind), &json!(mime)),
            "{name}"
        );
    }
    assert_eq!(named(&made, "t.csv")["path"], "sub/t.csv");
    let page = fetch(&service.client(), named(&made, "a\"b\nä.html"), &[]);
    assert_eq!(
        page.header("content-disposition"),
        "attachment; filename=\"a_b__.html\"; filename*=UTF-8''a%22b%0A%C3%A4.html"
    );
    assert_eq!(page.bytes, b"x\n");
    assert_eq!(
        fetch(&service.client(), named(&made, "empty"), &[]).bytes,
        b""
    );
    // The same run again makes nothing new.
    assert_eq!(artifacts(&service.bash("cat changed")), Vec::<Value>::new());
}

#[test]
fn an_artifact_stays_as_it_was_and_is_served_in_parts() {
    let service = Service::start();
    let client = service.client();
    let made = artifacts(&service.bash("printf 0123456789 > f"));
    service.bash("printf changed > f; rm f");
    let whole = fetch(&client, &made[0], &[]);
    assert_eq!(
        (whole.status, whole.bytes.as_slice()),
        (200, b"0123456789".as_slice())
    );
    let etag = whole.header("etag").to_owned();
    assert_eq!(etag, format!("\"{}\"", made[0]["sha256"].as_str().unwrap()));
    assert_eq!(whole.header("accept-ranges"), "bytes");
    for (range, status, bytes, content_range) in [
        ("bytes=2-4", 206, "234", "bytes 2-4/10"),
        ("bytes=-3", 206, "789", "bytes 7-9/10"),
        ("bytes=8-99", 206, "89", "bytes 8-9/10"),
    ] {
        let part = fetch(&client, &made[0], &[("range", range)]);
        assert_eq!(part.status, status, "{range}");
        assert_eq!(part.bytes, bytes.as_bytes(), "{range}");
        assert_eq!(part.header("content-range"), content_range);
    }
    let beyond = fetch(&client, &made[0], &[("range", "bytes=10-")]);
    assert_eq!(
        (beyond.status, beyond.header("content-range")),
        (416, "bytes */10")
    );
    let known = fetch(&client, &made[0], &[("if-none-match", &etag)]);
    assert_eq!((known.status, known.bytes.len()), (304, 0));
    let other = fetch(&client, &made[0], &[("if-none-match", "\"x\"")]);
    assert_eq!(other.status, 200);
    // A program may take its session's copy away, but not put another file in its place.
    service.bash("chmod -R u+w .sandbox; find .sandbox/artifacts -type f -exec sh -c 'ln -sf /etc/passwd \"$1\"' _ {} \\;");
    let gone = fetch(&client, &made[0], &[]);
    assert_eq!(
        (gone.status, gone.code()),
        (410, "artifact_gone"),
        "{:?}",
        gone.bytes
    );
}

#[test]
fn artifacts_are_told_of_while_the_run_streams() {
    let service = Service::start();
    let events = service
        .stream(
            "/bash",
            json!({"session_id": "s", "command": "echo 1 > a; echo 2 > b"}),
        )
        .rest();
    let told: Vec<&Value> = events
        .iter()
        .filter(|event| event.name == "artifact")
        .map(|event| &event.data)
        .collect();
    assert_eq!(told.len(), 2, "{events:?}");
    let last = events.last().unwrap();
    assert_eq!(last.name, "result");
    let listed = last.data["artifacts"].as_array().unwrap();
    assert!(told.iter().all(|artifact| listed.contains(artifact)));
    let all = service.get("/artifacts?session_id=s").body["artifacts"].clone();
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert_eq!(all[0]["execution_id"], last.data["execution_id"]);
}

#[test]
fn they_survive_a_restart_and_go_with_their_session() {
    let mut service = Service::start();
    let made = artifacts(&service.bash("echo kept > f"));
    until("it is registered", || {
        service.get("/artifacts?session_id=s").body["artifacts"][0]["name"] == "f"
    });
    service.terminate();
    assert!(service.wait().success());
    service.restart();
    assert_eq!(fetch(&service.client(), &made[0], &[]).bytes, b"kept\n");
    assert_eq!(service.delete("/sessions/default/s").status, 204);
    let gone = fetch(&service.client(), &made[0], &[]);
    assert_eq!((gone.status, gone.code()), (404, "not_found"));
    assert_eq!(
        service.get("/sessions/default/s").status,
        404,
        "a look makes no session"
    );
    service.bash("true");
    assert_eq!(
        service.get("/artifacts?session_id=s").body["artifacts"],
        json!([])
    );
}

#[test]
fn the_operator_bounds_them_in_number_size_and_time() {
    let service = Service::start_with(&[
        ("SANDBOX_ARTIFACT_FILES", "3"),
        ("SANDBOX_ARTIFACT_LIMIT", "1k"),
        ("SANDBOX_ARTIFACTS_LIMIT", "1500"),
    ]);
    let answer = service.bash("for i in 1 2 3 4 5; do head -c 100 /dev/zero > f$i; done");
    assert_eq!(artifacts(&answer).len(), 3);
    assert_eq!(answer.body["meta"]["artifacts_omitted"], 2);
    let answer = service.bash("head -c 2000 /dev/zero > large; echo x > small");
    assert_eq!(artifacts(&answer).len(), 1);
    assert_eq!(artifacts(&answer)[0]["name"], "small");
    assert_eq!(answer.body["meta"]["artifacts_omitted"], 1);
    let answer = service.bash("head -c 1000 /dev/zero > a; head -c 1000 /dev/zero > b");
    assert_eq!(artifacts(&answer).len(), 1);

    let off = Service::start_with(&[("SANDBOX_ARTIFACT_FILES", "0")]);
    assert_eq!(artifacts(&off.bash("echo x > f")), Vec::<Value>::new());
}

#[test]
fn a_tenants_oldest_make_room_and_old_ones_go() {
    let service = Service::start_with(&[("SANDBOX_TENANT_ARTIFACTS", "2500")]);
    let client = service.client();
    let made: Vec<Value> = (0..3)
        .map(|n| artifacts(&service.bash(&format!("head -c 1000 /dev/zero > f{n}"))).remove(0))
        .collect();
    until("the first makes room", || {
        fetch(&client, &made[0], &[]).status == 404
    });
    assert_eq!(fetch(&client, &made[1], &[]).status, 200);
    assert_eq!(fetch(&client, &made[2], &[]).status, 200);

    let service = Service::start_with(&[("SANDBOX_ARTIFACT_RETENTION", "1")]);
    let made = artifacts(&service.bash("echo x > f")).remove(0);
    std::thread::sleep(Duration::from_millis(1100));
    until("it is old", || {
        fetch(&service.client(), &made, &[]).status == 404
    });
}

#[test]
fn another_tenant_learns_nothing_of_them() {
    let service = Service::start_with(&[("SANDBOX_JWT_SECRET", SECRET)]);
    let ours = service.client().with_token(&token(&["--tenant", "ours"]));
    let theirs = service.client().with_token(&token(&["--tenant", "theirs"]));
    let made = artifacts(&ours.post("/bash", json!({"session_id": "s", "command": "echo x > f"})));
    assert_eq!(fetch(&ours, &made[0], &[]).status, 200);
    let answer = fetch(&theirs, &made[0], &[]);
    let unknown = theirs.send(
        "GET",
        "/artifacts/01a1fc72-33b0-7279-885f-c1f7645a019a",
        &[],
        None,
    );
    assert_eq!((answer.status, answer.code()), (404, "not_found"));
    assert_eq!(answer.body["detail"], unknown.body["detail"]);
    assert_eq!(fetch(&service.client(), &made[0], &[]).status, 401);
    let listed = theirs.send("GET", "/artifacts?session_id=s", &[], None);
    assert_eq!(listed.body["artifacts"], json!([]));
    let listed = theirs.send("GET", "/artifacts?session_id=s&tenant_id=ours", &[], None);
    assert_eq!(listed.status, 403);
    for id in ["x", "..%2F..", "%00"] {
        let answer = ours.send("GET", &format!("/artifacts/{id}"), &[], None);
        assert_eq!(answer.status, 400, "{id}");
    }
}

#[test]
fn a_run_without_a_session_keeps_none() {
    let service = Service::start();
    let answer = service.post("/bash", json!({"command": "echo x > f"}));
    assert_eq!(artifacts(&answer), Vec::<Value>::new());
}
