//! Processes: started, read, written to, signalled and attached to.

use std::{
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tungstenite::{Message, protocol::frame::coding::CloseCode};

use crate::{
    support::{Client, Event, SECRET, Service, processes_with, token, until},
    websocket::{Frame, Socket, rpc},
};

fn start(client: &Client, process: Value) -> String {
    let answer = client.post("/processes", process);
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.body["process_id"].as_str().unwrap().to_owned()
}

fn get(client: &Client, path: &str) -> crate::support::Answer {
    client.send("GET", path, &[], None)
}

fn output(client: &Client, id: &str, query: &str) -> Vec<Event> {
    let mut events = client.events("GET", &format!("/processes/{id}/output{query}"), None);
    assert_eq!(events.status, 200);
    assert_eq!(events.headers["content-type"], "text/event-stream");
    events.rest()
}

fn printed(events: &[Event], name: &str) -> String {
    events
        .iter()
        .filter(|event| event.name == name)
        .map(|event| event.data["text"].as_str().unwrap())
        .collect()
}

fn post(client: &Client, id: &str, what: &str, body: Value) -> (u16, String) {
    let answer = client.post(&format!("/processes/{id}/{what}"), body);
    let code = match answer.status {
        204 => String::new(),
        _ => answer.code().to_owned(),
    };
    (answer.status, code)
}

#[test]
fn a_process_goes_on_after_its_request_and_its_output_can_be_read_from_any_event() {
    let service = Service::start();
    let client = service.client();
    let id = start(
        &client,
        json!({
            "session_id": "s",
            "command": "echo \"$WHO here\"; pwd; echo bad >&2; read line; echo \"got $line\"; exit 3",
            "env": {"WHO": "ä"}, "name": "reader",
        }),
    );
    let mut events = client.events("GET", &format!("/processes/{id}/output"), None);
    let mut seen = Vec::new();
    while printed(&seen, "stdout") != "ä here\n/workspace\n" || printed(&seen, "stderr").is_empty()
    {
        seen.push(events.next().unwrap());
    }
    let body = get(&client, &format!("/processes/{id}")).body;
    assert_eq!(
        (&body["state"], &body["name"]),
        (&json!("running"), &json!("reader"))
    );
    assert!(body["pid"].as_u64().unwrap() > 1, "{body}");

    assert_eq!(
        post(
            &client,
            &id,
            "stdin",
            json!({"data": "bGluZQo=", "encoding": "base64"})
        )
        .0,
        204
    );
    seen.extend(events.rest());
    assert_eq!(printed(&seen, "stdout"), "ä here\n/workspace\ngot line\n");
    assert_eq!(printed(&seen, "stderr"), "bad\n");
    let ids: Vec<u64> = seen.iter().map(|event| event.id).collect();
    assert_eq!(ids, (1..=seen.len() as u64).collect::<Vec<_>>());
    let last = seen.last().unwrap();
    assert_eq!(
        (last.name.as_str(), &last.data["exit_code"]),
        ("exit", &json!(3))
    );
    assert_eq!(last.data["state"], "ended");

    // It can be read again, in part too, when it has ended.
    let after = last.id - 2;
    for rest in [
        output(&client, &id, &format!("?after={after}")),
        output(&client, &id, &format!("?follow=false&after={after}")),
    ] {
        assert_eq!(
            rest.iter().map(|event| event.id).collect::<Vec<_>>(),
            [after + 1, after + 2]
        );
    }
    let gone = [
        ("stdin", json!({"data": "x"})),
        ("signal", json!({"signal": "TERM"})),
    ];
    for (what, body) in gone {
        assert_eq!(
            post(&client, &id, what, body),
            (409, "process_ended".into()),
            "{what}"
        );
    }
    let listed = get(&client, "/processes?session_id=s").body["processes"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["process_id"], id);
    assert_eq!(service.delete(&format!("/processes/{id}")).status, 204);
    assert_eq!(get(&client, &format!("/processes/{id}")).status, 404);
    assert_eq!(
        get(&client, "/processes?session_id=s").body["processes"],
        json!([])
    );
}

#[test]
fn output_that_is_there_is_read_without_waiting() {
    let service = Service::start();
    let client = service.client();
    let id = start(
        &client,
        json!({"session_id": "s", "command": "echo ready; exec sleep 300"}),
    );
    until("the first line", || {
        get(&client, &format!("/processes/{id}")).body["output_bytes"] == 6
    });
    let events = output(&client, &id, "?follow=false");
    assert_eq!(printed(&events, "stdout"), "ready\n");
    assert_ne!(events.last().unwrap().name, "exit");
}

#[test]
fn signals_reach_a_process_and_deletion_kills_all_that_it_started() {
    let service = Service::start();
    let client = service.client();
    let id = start(
        &client,
        json!({"session_id": "s", "command": "trap 'echo caught; exit 7' USR1; echo up; while :; do sleep 0.05; done"}),
    );
    let mut events = client.events("GET", &format!("/processes/{id}/output"), None);
    assert_eq!(events.next().unwrap().data["text"], "up\n");
    assert_eq!(post(&client, &id, "signal", json!({"signal": 10})).0, 204);
    let rest = events.rest();
    assert_eq!(printed(&rest, "stdout"), "caught\n");
    assert_eq!(rest.last().unwrap().data["exit_code"], 7);

    let id = start(
        &client,
        json!({"session_id": "s", "argv": ["sleep", "299"]}),
    );
    assert_eq!(
        post(&client, &id, "signal", json!({"signal": "SIGKILL"})).0,
        204
    );
    let end = output(&client, &id, "").pop().unwrap();
    assert_eq!(
        (&end.data["signal"], &end.data["exit_code"]),
        (&json!(9), &json!(137))
    );

    let seconds = format!("30{}", std::process::id());
    let id = start(
        &client,
        json!({"session_id": "s", "command": format!("sleep {seconds} & sleep {seconds}")}),
    );
    until("both", || processes_with(&seconds).len() >= 2);
    assert_eq!(service.delete(&format!("/processes/{id}")).status, 204);
    until("their end", || processes_with(&seconds).is_empty());
}

#[test]
fn a_socket_carries_input_output_errors_and_the_end() {
    let service = Service::start();
    let client = service.client();
    let id = start(
        &client,
        json!({"session_id": "s", "command": "cat; echo over >&2; exit 5"}),
    );
    let mut socket = Socket::open(&client, &format!("/processes/{id}/attach")).unwrap();
    assert_eq!(
        socket.next(),
        Frame::Said(json!({"type": "attached", "process_id": id, "after": 0}))
    );
    // Any byte, both ways.
    let bytes: Vec<u8> = (0..=255).collect();
    socket.write(&bytes);
    let mut out = Vec::new();
    while out.len() < bytes.len() {
        let Frame::Stdout(data) = socket.next() else {
            panic!("not output")
        };
        out.extend(data);
    }
    assert_eq!(out, bytes);
    socket.say(json!({"type": "stdin", "data": "ä\n"}));
    assert_eq!(socket.next(), Frame::Stdout("ä\n".into()));
    // What cannot be done is said, and the socket goes on.
    socket.say(json!({"type": "signal", "signal": "NOPE"}));
    assert_eq!(
        socket.until("error", &mut Vec::new())["code"],
        "invalid_request"
    );
    socket.say(json!({"type": "resize", "cols": 0, "rows": 1}));
    assert_eq!(
        socket.until("error", &mut Vec::new())["code"],
        "invalid_request"
    );
    socket.say(json!({"type": "close_stdin"}));
    assert_eq!(socket.until("stderr", &mut Vec::new())["text"], "over\n");
    let exit = socket.until("exit", &mut Vec::new());
    assert_eq!(
        (&exit["exit_code"], &exit["process_id"]),
        (&json!(5), &json!(id))
    );
    assert_eq!(socket.next(), Frame::Closed(Some(CloseCode::Normal)));

    // Whoever comes later learns all of it.
    let mut late = Socket::open(&client, &format!("/processes/{id}/attach")).unwrap();
    let mut out = Vec::new();
    late.until("exit", &mut out);
    assert_eq!(out, [bytes, "ä\n".into()].concat());
}

#[test]
fn a_terminal_has_a_size_echoes_and_takes_control_characters() {
    let service = Service::start();
    let client = service.client();
    let id = start(
        &client,
        json!({"session_id": "s", "argv": ["bash", "--norc", "-i"], "pty": {"cols": 91, "rows": 17}, "env": {"PS1": "> ", "TERM": "dumb"}}),
    );
    assert_eq!(get(&client, &format!("/processes/{id}")).body["pty"], true);
    let mut socket = Socket::open(&client, &format!("/processes/{id}/attach")).unwrap();
    socket.write(b"stty size\n");
    socket.until_printed("17 91");
    socket.say(json!({"type": "resize", "cols": 120, "rows": 40}));
    socket.write(b"stty size\n");
    socket.until_printed("40 120");
    let seconds = format!("32{}", std::process::id());
    socket.write(format!("sleep {seconds}\n").as_bytes());
    socket.until_printed(&seconds);
    until("the sleep", || !processes_with(&seconds).is_empty());
    socket.write(b"\x03");
    socket.until_printed("> ");
    socket.write(b"echo st''ill\n");
    socket.until_printed("still");
    socket.write(b"exit 4\n");
    assert_eq!(socket.until("exit", &mut Vec::new())["exit_code"], 4);
}

#[test]
fn a_process_outlives_who_was_attached_and_others_may_come() {
    let service = Service::start();
    let client = service.client();
    let id = start(
        &client,
        json!({"session_id": "s", "command": "while read line; do echo \"<$line>\"; done"}),
    );
    let path = format!("/processes/{id}/attach");
    let mut first = Socket::open(&client, &path).unwrap();
    first.write(b"one\n");
    first.until_printed("<one>");
    let mut second = Socket::open(&client, &path).unwrap();
    assert_eq!(second.until_printed("<one>"), "<one>\n");
    second.write(b"two\n");
    first.until_printed("<two>");
    second.until_printed("<two>");
    drop(first);
    second.0.close(None).unwrap();
    drop(second);
    let mut third = Socket::open(&client, &format!("{path}?after=1")).unwrap();
    assert_eq!(third.until_printed("<two>"), "<two>\n");
    third.write(b"three\n");
    third.until_printed("<three>");
}

#[test]
fn frames_that_are_not_understood_end_the_socket_and_not_the_process() {
    let service = Service::start();
    let client = service.client();
    let id = start(&client, json!({"session_id": "s", "argv": ["cat"]}));
    let path = format!("/processes/{id}/attach");
    for bad in [
        "",
        "{",
        "[]",
        "null",
        "{\"type\":\"exec\"}",
        "{\"type\":\"stdin\"}",
        "{\"type\":\"close_stdin\",\"extra\":1}",
        "{\"type\":\"resize\",\"cols\":70000,\"rows\":1}",
    ] {
        let mut socket = Socket::open(&client, &path).unwrap();
        socket.0.send(Message::text(bad)).unwrap();
        assert_eq!(
            socket.until("error", &mut Vec::new())["code"],
            "invalid_request",
            "{bad}"
        );
        assert_eq!(
            socket.next(),
            Frame::Closed(Some(CloseCode::Policy)),
            "{bad}"
        );
    }
    // A frame beyond the limit is not read to its end.
    let mut socket = Socket::open(&client, &path).unwrap();
    socket.until("attached", &mut Vec::new());
    let _ = socket
        .0
        .send(Message::Binary(vec![b'x'; (1 << 20) + 1].into()));
    loop {
        match socket.0.read() {
            Ok(Message::Binary(_)) => panic!("it was taken"),
            Ok(Message::Close(_)) | Err(_) => break,
            Ok(_) => {}
        }
    }
    assert_eq!(
        get(&client, &format!("/processes/{id}")).body["state"],
        "running"
    );
    // A plain request is no socket.
    let plain = get(&client, &path);
    assert_eq!((plain.status, plain.code()), (400, "invalid_request"));
}

#[test]
fn a_client_that_reads_nothing_stops_the_process_and_not_the_service() {
    let service = Service::start();
    let client = service.client();
    let id = start(
        &client,
        json!({"session_id": "s", "command": "read go; exec yes 0123456789012345678901234567890123456789"}),
    );
    let path = format!("/processes/{id}/attach");
    let mut stalled = Socket::open(&client, &path).unwrap();
    stalled.until("attached", &mut Vec::new());
    stalled.write(b"\n");
    let bytes = || {
        get(&client, &format!("/processes/{id}")).body["output_bytes"]
            .as_u64()
            .unwrap()
    };
    // It stops when the ring and the buffers between are full.
    let mut before = 0;
    until("the stop", || {
        let now = bytes();
        let stopped = now > 0 && now == before;
        before = now;
        thread::sleep(Duration::from_millis(300));
        stopped
    });
    assert!(before < 64 << 20, "{before}");
    // And goes on when it is read.
    let mut out = Vec::new();
    while (out.len() as u64) < before {
        if let Frame::Stdout(data) = stalled.next() {
            out.extend(data);
        }
    }
    until("more", || bytes() > before);
    assert_eq!(service.delete(&format!("/processes/{id}")).status, 204);
}

#[test]
fn processes_end_with_their_session_and_a_new_one_of_its_name_does_not_see_them() {
    let service = Service::start();
    let client = service.client();
    let seconds = format!("31{}", std::process::id());
    let id = start(
        &client,
        json!({"session_id": "s", "argv": ["sleep", seconds]}),
    );
    let mut socket = Socket::open(&client, &format!("/processes/{id}/attach")).unwrap();
    socket.until("attached", &mut Vec::new());
    assert_eq!(service.delete("/sessions/default/s").status, 204);
    let exit = socket.until("exit", &mut Vec::new());
    assert_eq!(exit["state"], "lost");
    assert!(exit.get("exit_code").is_none(), "{exit}");
    until("its end", || processes_with(&seconds).is_empty());
    assert_eq!(get(&client, &format!("/processes/{id}")).status, 404);
    service.bash("true");
    assert_eq!(
        get(&client, "/processes?session_id=s").body["processes"],
        json!([])
    );
}

#[test]
fn a_stop_tells_who_is_attached() {
    let mut service = Service::start_with(&[("SANDBOX_SHUTDOWN_GRACE", "1")]);
    let client = service.client();
    let id = start(
        &client,
        json!({"session_id": "s", "argv": ["sleep", "300"]}),
    );
    let mut socket = Socket::open(&client, &format!("/processes/{id}/attach")).unwrap();
    socket.until("attached", &mut Vec::new());
    service.terminate();
    assert_eq!(socket.until("exit", &mut Vec::new())["state"], "lost");
    assert!(service.wait().success());
}

#[test]
fn an_attached_client_keeps_an_idle_session_and_a_silent_process_does_not() {
    let service = Service::start_with(&[("SANDBOX_IDLE_TIMEOUT", "1")]);
    let client = service.client();
    let id = start(&client, json!({"session_id": "s", "argv": ["cat"]}));
    let mut socket = Socket::open(&client, &format!("/processes/{id}/attach")).unwrap();
    socket.until("attached", &mut Vec::new());
    let until_then = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until_then {
        assert_eq!(
            get(&client, &format!("/processes/{id}")).body["state"],
            "running"
        );
        thread::sleep(Duration::from_millis(100));
    }
    drop(socket);
    until("the session's end", || {
        service.get("/sessions/default/s").status == 404
    });
}

#[test]
fn another_tenant_neither_sees_nor_reaches_a_process() {
    let service = Service::start_with(&[("SANDBOX_JWT_SECRET", SECRET)]);
    let ours = service.client().with_token(&token(&["--tenant", "ours"]));
    let theirs = service.client().with_token(&token(&["--tenant", "theirs"]));
    let id = start(&ours, json!({"session_id": "s", "argv": ["cat"]}));
    let path = format!("/processes/{id}");
    assert_eq!(get(&ours, &path).status, 200);
    for path in [path.clone(), format!("{path}/output")] {
        let answer = get(&theirs, &path);
        assert_eq!((answer.status, answer.code()), (404, "not_found"), "{path}");
        let answer = get(&theirs, &format!("{path}?tenant_id=ours"));
        assert_eq!(
            (answer.status, answer.code()),
            (403, "forbidden_tenant"),
            "{path}"
        );
        assert_eq!(get(&service.client(), &path).status, 401);
    }
    assert_eq!(post(&theirs, &id, "stdin", json!({"data": "x"})).0, 404);
    assert_eq!(post(&theirs, &id, "signal", json!({"signal": 9})).0, 404);
    assert_eq!(theirs.send("DELETE", &path, &[], None).status, 404);
    for (client, status) in [(&theirs, 404), (&service.client(), 401)] {
        assert_eq!(
            Socket::open(client, &format!("{path}/attach")).err(),
            Some(status)
        );
    }
    assert_eq!(
        get(&theirs, "/processes?session_id=s").body["processes"],
        json!([])
    );
    assert_eq!(get(&ours, &path).body["state"], "running");
    Socket::open(&ours, &format!("{path}/attach")).unwrap();
}

#[test]
fn what_cannot_be_a_process_is_refused_and_nothing_is_left() {
    let service = Service::start();
    let client = service.client();
    let bad = [
        json!({"session_id": "s"}),
        json!({"session_id": "s", "argv": []}),
        json!({"session_id": "s", "argv": [""]}),
        json!({"session_id": "s", "argv": ["true"], "command": "true"}),
        json!({"session_id": "s", "argv": ["true\0"]}),
        json!({"session_id": "s", "command": " \n"}),
        json!({"session_id": "s", "argv": ["true"], "env": {"A=B": "c"}}),
        json!({"session_id": "s", "argv": ["true"], "name": "x".repeat(65)}),
        json!({"session_id": "s", "argv": ["true"], "name": "a\nb"}),
        json!({"session_id": "s", "argv": ["true"], "pty": {"cols": 0}}),
        json!({"session_id": "s", "argv": ["true"], "pty": {"rows": 1001}}),
        json!({"session_id": "s", "argv": ["true"], "cwd": "../.."}),
        json!({"session_id": "../s", "argv": ["true"]}),
        json!({"argv": ["true"]}),
    ];
    for body in bad {
        let answer = client.post("/processes", body.clone());
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
    }
    let missing = client.post(
        "/processes",
        json!({"session_id": "s", "argv": ["no-such-program"]}),
    );
    assert_eq!(missing.status, 422, "{}", missing.body);
    assert_eq!(missing.code(), "not_installed");
    assert_eq!(
        get(&client, "/processes?session_id=s").body["processes"],
        json!([])
    );
    for path in ["x", "00000000-0000-0000-0000-000000000000%0a"] {
        assert_eq!(
            get(&client, &format!("/processes/{path}")).status,
            400,
            "{path}"
        );
    }
    let id = start(&client, json!({"session_id": "s", "argv": ["cat"]}));
    for bad in [
        json!({"signal": 0}),
        json!({"signal": 65}),
        json!({"signal": -1}),
        json!({"signal": 1e308}),
        json!({"signal": "KILL\n"}),
        json!({}),
    ] {
        assert_eq!(post(&client, &id, "signal", bad.clone()).0, 400, "{bad}");
    }
    let large = json!({"data": "x".repeat((1 << 20) + 1)});
    assert_eq!(
        post(&client, &id, "stdin", large),
        (413, "body_too_large".into())
    );
    assert_eq!(
        post(
            &client,
            &id,
            "stdin",
            json!({"data": "!", "encoding": "base64"})
        )
        .0,
        400
    );
    for query in ["?after=-1", "?after=x", "?follow=perhaps", "?extra=1"] {
        assert_eq!(
            get(&client, &format!("/processes/{id}/output{query}")).status,
            400,
            "{query}"
        );
    }
    assert_eq!(
        get(&client, &format!("/processes/{id}")).body["state"],
        "running"
    );
}

#[test]
fn a_session_has_only_so_many_processes() {
    let service = Service::start();
    let client = service.client();
    let body = json!({"session_id": "s", "argv": ["cat"]});
    let ids: Vec<String> = (0..16).map(|_| start(&client, body.clone())).collect();
    let refused = client.post("/processes", body.clone());
    assert_eq!(
        (refused.status, refused.code()),
        (429, "process_limit_reached")
    );
    assert_eq!(
        service.delete(&format!("/processes/{}", ids[0])).status,
        204
    );
    start(&client, body);
}

fn mcp_server() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-venv");
    let made = Command::new(tests.join("openapi/venv.sh"))
        // Sandboxes see the system's own.
        .env("PYTHON", "/usr/bin/python3")
        .arg(&venv)
        .arg(tests.join("mcp/requirements.txt"))
        .status()
        .unwrap();
    assert!(made.success());
    venv
}

#[test]
fn a_stdio_mcp_server_serves_a_client_through_the_socket() {
    let venv = mcp_server();
    let venv = venv.to_str().unwrap();
    let service = Service::start_with(&[("SANDBOX_READ_ONLY_PATHS", venv)]);
    let client = service.client();
    let id = start(
        &client,
        json!({
            "session_id": "tools",
            "argv": [format!("{venv}/bin/python"), "-m", "mcp_server_time", "--local-timezone", "UTC"],
        }),
    );
    let mut server = Socket::open(&client, &format!("/processes/{id}/attach")).unwrap();
    let hello = server.call(&rpc(
        1,
        "initialize",
        json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
    ));
    assert_eq!(hello["id"], 1);
    assert!(
        hello["result"]["capabilities"]["tools"].is_object(),
        "{hello}"
    );
    server.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    let tools = server.call(&rpc(2, "tools/list", json!({})));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"convert_time"), "{names:?}");
    let converted = server.call(&rpc(
        3,
        "tools/call",
        json!({"name": "convert_time", "arguments": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}}),
    ));
    let text = converted["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("T21:00:00+09:00"), "{text}");
    // The client's end of input ends it, as of every stdio server.
    server.say(json!({"type": "close_stdin"}));
    assert_eq!(server.until("exit", &mut Vec::new())["exit_code"], 0);
}
