//! Runs as streams, runs that outlive their request, and runs with a name.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{Client, Event, SECRET, Service, processes_with, token, until};

fn texts(events: &[Event], name: &str) -> String {
    events
        .iter()
        .filter(|event| event.name == name)
        .map(|event| event.data["text"].as_str().unwrap())
        .collect()
}

/// A command line of its own, to find its processes by.
fn mark(of: &str) -> String {
    format!("3{of}{}", std::process::id())
}

#[test]
fn a_stream_has_numbered_events_and_ends_with_the_result() {
    let service = Service::start();
    let mut stream = service.stream(
        "/execute",
        json!({"session_id": "s", "code": "import sys\nprint('aä')\nprint('b', file=sys.stderr)\nsys.exit(3)"}),
    );
    assert_eq!(stream.status, 200);
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    let events = stream.rest();
    let ids: Vec<u64> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids, (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!(events[0].name, "start");
    assert_eq!(events[0].data["session_id"], "s");
    assert_eq!(
        (
            texts(&events, "stdout").as_str(),
            texts(&events, "stderr").as_str()
        ),
        ("aä\n", "b\n")
    );
    let last = events.last().unwrap();
    assert_eq!(last.name, "result");
    assert_eq!(
        (
            &last.data["stdout"],
            &last.data["exit_code"],
            &last.data["status"]
        ),
        (&json!("aä\n"), &json!(3), &json!("finished"))
    );
    assert_eq!(last.data["execution_id"], events[0].data["execution_id"]);
}

#[test]
fn output_is_with_the_client_while_the_program_runs() {
    let service = Service::start();
    // The program waits for what is sent only when its output is here.
    assert_eq!(service.bash("mkfifo go").status, 200);
    let mut stream = service.stream(
        "/bash",
        json!({"session_id": "s", "command": "printf one; cat go"}),
    );
    assert_eq!(stream.until("stdout").data["text"], "one");
    assert_eq!(service.bash("echo two > go").status, 200);
    assert_eq!(stream.until("stdout").data["text"], "two\n");
    assert_eq!(stream.until("result").data["stdout"], "onetwo\n");
}

#[test]
fn a_stream_that_cannot_begin_is_a_problem() {
    let service = Service::start();
    let stream = service.stream("/execute", json!({"code": "1", "language": "cobol"}));
    assert_eq!(stream.status, 422);
    let stream = service.stream("/bash", json!({"command": "1", "wait_seconds": 1}));
    assert_eq!(stream.status, 400);
    let service = Service::start_with(&[("SANDBOX_MAX_SESSIONS", "1")]);
    let mut holds = service.stream("/bash", json!({"session_id": "a", "command": "sleep 60"}));
    holds.until("start");
    let refused = service.stream("/bash", json!({"session_id": "b", "command": "true"}));
    assert_eq!(refused.status, 429);
}

#[test]
fn closing_a_stream_kills_its_run_and_detach_keeps_it() {
    let service = Service::start();
    let (kept, killed) = (mark("1"), mark("2"));
    let body = |mark: &str, detach: bool| json!({"session_id": "s", "command": format!("sleep {mark}"), "detach": detach});
    let mut first = service.stream("/bash", body(&kept, true));
    let id = first.until("start").data["execution_id"].clone();
    let mut second = service.stream("/bash", body(&killed, false));
    second.until("start");
    until("both run", || {
        !processes_with(&kept).is_empty() && !processes_with(&killed).is_empty()
    });
    drop((first, second));
    until("the one that was not detached has ended", || {
        processes_with(&killed).is_empty()
    });
    assert!(!processes_with(&kept).is_empty());
    let path = format!("/executions/{}", id.as_str().unwrap());
    let running = service.get(&path);
    assert_eq!(
        (running.status, &running.body["status"]),
        (202, &json!("running"))
    );
    let cancelled = service.client().post(&format!("{path}/cancel"), json!({}));
    assert_eq!(cancelled.status, 200, "{}", cancelled.body);
    assert_eq!(cancelled.body["meta"]["termination"], "cancelled");
    assert_eq!(cancelled.body["exit_code"], 137);
    until("it has ended too", || processes_with(&kept).is_empty());
    assert_eq!(service.get(&path).body["meta"]["termination"], "cancelled");
}

#[test]
fn a_broken_stream_goes_on_where_it_broke() {
    let service = Service::start();
    service.bash("mkfifo go");
    let mut stream = service.stream(
        "/bash",
        json!({
            "session_id": "s", "detach": true, "execution_id": "build-1",
            "command": "for i in 1 2 3; do echo line $i; cat go; done",
        }),
    );
    let seen = stream.until("stdout");
    assert_eq!(seen.data["text"], "line 1\n");
    drop(stream);
    for _ in 0..3 {
        assert_eq!(
            service.bash("timeout 20 bash -c 'echo went > go'").status,
            200
        );
    }
    let client = service.client();
    let mut again = client.events(
        "GET",
        &format!("/executions/build-1/events?after={}", seen.id),
        None,
    );
    let events = again.rest();
    assert_eq!(events[0].id, seen.id + 1);
    assert_eq!(
        texts(&events, "stdout"),
        "went\nline 2\nwent\nline 3\nwent\n"
    );
    assert_eq!(events.last().unwrap().name, "result");
    // The header that browsers send does the same, as often as one likes.
    let headers = [("last-event-id", seen.id.to_string())];
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, id)| (*name, id.as_str()))
        .collect();
    let answer = client.send("GET", "/executions/build-1/events", &headers, None);
    assert_eq!(answer.status, 200);
    let text = String::from_utf8(answer.bytes).unwrap();
    assert!(
        text.starts_with(&format!("id: {}\n", seen.id + 1)),
        "{text}"
    );
    for bad in ["after=-1", "after=x", "after=1&more=2"] {
        let path = format!("/executions/build-1/events?{bad}");
        assert_eq!(service.get(&path).status, 400, "{bad}");
    }
}

#[test]
fn a_long_run_is_answered_early_and_polled() {
    let service = Service::start();
    service.bash("mkfifo go");
    let began = Instant::now();
    let early = service.post(
        "/bash",
        json!({"session_id": "s", "command": "echo begun; cat go; exit 4", "wait_seconds": 0.3}),
    );
    assert!(began.elapsed() < Duration::from_secs(15));
    assert_eq!(early.status, 202);
    assert_eq!(
        (&early.body["status"], &early.body["stdout"]),
        (&json!("running"), &json!("begun\n"))
    );
    let path = format!("/{}", early.header("location"));
    assert_eq!(
        path,
        format!(
            "/executions/{}",
            early.body["execution_id"].as_str().unwrap()
        )
    );
    assert_eq!(service.get(&path).status, 202);
    service.bash("echo over > go");
    let late = service.get(&format!("{path}?wait_seconds=20"));
    assert_eq!(late.status, 200);
    assert_eq!(
        (&late.body["stdout"], &late.body["exit_code"]),
        (&json!("begun\nover\n"), &json!(4))
    );
    let quick = service.post(
        "/bash",
        json!({"session_id": "s", "command": "echo quick", "wait_seconds": 20}),
    );
    assert_eq!((quick.status, quick.stdout()), (200, "quick\n"));
}

#[test]
fn the_same_name_is_the_same_run_and_never_a_second_one() {
    let mut service = Service::start();
    let body = json!({"session_id": "s", "command": "sleep 0.3; echo once >> log; cat log"});
    let client = service.client();
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", "order-7"),
    ];
    let post = |client: &Client, body: &Value| {
        client.send("POST", "/bash", &headers, Some(body.to_string().as_bytes()))
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| post(&client, &body)))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    for answer in &answers {
        assert_eq!(answer.stdout(), "once\n");
        assert_eq!(answer.body["execution_id"], "order-7");
    }
    assert_eq!(post(&client, &body).body, answers[0].body);
    let other = json!({"session_id": "s", "command": "echo other"});
    let refused = post(&client, &other);
    assert_eq!(
        (refused.status, refused.code()),
        (409, "execution_mismatch")
    );
    service.restart();
    // Its answer is gone with the service that made it; it is not made again.
    let late = post(&service.client(), &body);
    assert_eq!((late.status, late.code()), (409, "execution_expired"));
    let refused = post(&service.client(), &other);
    assert_eq!(
        (refused.status, refused.code()),
        (409, "execution_mismatch")
    );
    assert_eq!(service.bash("cat log").stdout(), "once\n");
}

#[test]
fn a_run_that_was_refused_leaves_its_name_free() {
    let service = Service::start_with(&[("SANDBOX_MAX_SESSIONS", "1")]);
    let mut holds = service.stream("/bash", json!({"session_id": "a", "command": "sleep 60"}));
    holds.until("start");
    let body = json!({"session_id": "b", "command": "echo ran", "execution_id": "e"});
    assert_eq!(
        service.post("/bash", body.clone()).code(),
        "session_limit_reached"
    );
    drop(holds);
    assert_eq!(service.delete("/sessions/default/a").status, 204);
    assert_eq!(service.post("/bash", body).stdout(), "ran\n");
}

#[test]
fn a_client_that_does_not_read_stops_the_program_and_not_the_service() {
    // It prints more than what usually ends a run.
    let service = Service::start_with(&[("SANDBOX_SPILL_LIMIT", "1g")]);
    let body = json!({"session_id": "s", "stream": true, "command":
        "for i in $(seq 100000); do head -c 65536 /dev/zero | tr '\\0' x; echo $i > at; done"})
    .to_string();
    let address = service.url.strip_prefix("http://").unwrap();
    let mut stalled = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stalled,
        "POST /bash HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let at = || {
        let read = service.post("/read", json!({"session_id": "s", "path": "at"}));
        read.body["content"]
            .as_str()
            .and_then(|text| text.trim().parse::<u64>().ok())
    };
    until("it has printed", || at().is_some());
    let mut before = None;
    until("it stands still", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = at();
        // The file is empty for a moment each time that it is written.
        let still = now.is_some() && now == before;
        before = now;
        still
    });
    // What the buffers between program and client hold, and no more.
    assert!(before.unwrap() < 1000, "{before:?}");
    let rss = std::fs::read_to_string(format!("/proc/{}/status", service.pid())).unwrap();
    let rss: u64 = rss
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap();
    assert!(rss < 200 * 1024, "{rss} KiB");
    // It reads on, and so the program goes on.
    let stood = before.unwrap();
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..64 {
        stalled.read_exact(&mut buffer).unwrap();
    }
    until("it goes on", || at().is_some_and(|now| now > stood));
}

#[test]
fn every_result_says_why_the_run_ended() {
    let service = Service::start_with(&[("SANDBOX_SPILL_LIMIT", "3m")]);
    let termination = |command: &str| {
        let answer = service.post(
            "/bash",
            json!({"session_id": "s", "command": command, "timeout_seconds": 5}),
        );
        let meta = &answer.body["meta"];
        (
            meta["termination"].as_str().unwrap_or("?").to_owned(),
            answer.body["exit_code"].clone(),
        )
    };
    assert_eq!(termination("exit 3"), ("exited".into(), json!(3)));
    assert_eq!(termination("kill -11 $$"), ("signaled".into(), json!(139)));
    assert_eq!(termination("sleep 60"), ("timed_out".into(), json!(124)));
    assert_eq!(termination("cat /dev/zero").0, "output_limit");
}

#[test]
fn output_beyond_the_cap_is_in_a_file() {
    let service = Service::start_with(&[("SANDBOX_OUTPUT_LIMIT", "64k")]);
    let answer = service.bash("seq 100000; echo end >&2");
    assert_eq!(answer.body["truncated"], true);
    let stdout = answer.stdout();
    assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("99999\n100000\n"));
    let file = &answer.body["meta"]["stdout_file"];
    assert_eq!(file["size_bytes"], 588_895);
    assert_eq!(answer.body["meta"]["stderr_file"], Value::Null);
    let path = file["path"].as_str().unwrap();
    let whole = service.post("/read_binary", json!({"session_id": "s", "path": path}));
    let expected: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(whole.bytes, expected.as_bytes());
    let sum = service.bash(&format!("sha256sum {path}"));
    assert_eq!(sum.stdout().split(' ').next(), file["sha256"].as_str());
}

#[test]
fn another_tenants_run_is_not_there() {
    let service = Service::start_with(&[("SANDBOX_JWT_SECRET", SECRET)]);
    let ours = service.client().with_token(&token(&["--tenant", "ours"]));
    let theirs = service.client().with_token(&token(&["--tenant", "theirs"]));
    let run = ours.post(
        "/bash",
        json!({"session_id": "s", "command": "echo x", "execution_id": "e"}),
    );
    assert_eq!(run.status, 200);
    for (method, path) in [
        ("GET", "/executions/e"),
        ("GET", "/executions/e/events"),
        ("POST", "/executions/e/cancel"),
    ] {
        let answer = theirs.send(method, path, &[], None);
        assert_eq!((answer.status, answer.code()), (404, "not_found"), "{path}");
        let named = format!("{path}?tenant_id=ours");
        let answer = theirs.send(method, &named, &[], None);
        assert_eq!(
            (answer.status, answer.code()),
            (403, "forbidden_tenant"),
            "{path}"
        );
    }
    // The same name is free in another tenant.
    let run = theirs.post(
        "/bash",
        json!({"session_id": "s", "command": "echo y", "execution_id": "e"}),
    );
    assert_eq!(run.stdout(), "y\n");
    assert_eq!(ours.send("GET", "/executions/e", &[], None).stdout(), "x\n");
}
