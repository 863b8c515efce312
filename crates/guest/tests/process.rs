//! `process.Process`, as the public contract words it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use support::{WireGuest, alive, until, wire::Frames};

fn bash(command: &str) -> Value {
    json!({"cmd": "/bin/bash", "args": ["-c", command]})
}

fn text(event: &Value, stream: &str) -> String {
    let bytes = STANDARD.decode(event["data"][stream].as_str().unwrap_or_default());
    String::from_utf8(bytes.unwrap()).unwrap()
}

async fn started(frames: &mut Frames) -> u64 {
    let (_, first) = frames.next().await;
    first["event"]["start"]["pid"]
        .as_u64()
        .expect("start comes first")
}

#[tokio::test]
async fn a_process_is_followed_from_start_to_end() {
    let guest = WireGuest::start().await;
    let frames = guest
        .wire
        .stream(
            "process.Process/Start",
            &[],
            json!({"process": {"cmd": "/bin/bash", "args": ["-c", "echo out; echo $X >&2; pwd; exit 3"],
                   "envs": {"X": "err"}, "cwd": "/tmp"}, "stdin": false}),
        )
        .await;
    let events = frames.events().await;
    assert!(events[0]["start"]["pid"].is_u64(), "{events:?}");
    let all = |stream: &str| {
        events
            .iter()
            .map(|event| text(event, stream))
            .collect::<String>()
    };
    assert_eq!(
        (all("stdout").as_str(), all("stderr").as_str()),
        ("out\n/tmp\n", "err\n")
    );
    assert_eq!(
        events.last().unwrap()["end"],
        json!({"exitCode": 3, "exited": true, "status": "exit status 3", "error": "exit status 3"})
    );
}

#[tokio::test]
async fn a_good_end_has_neither_code_nor_error() {
    let guest = WireGuest::start().await;
    let frames = guest
        .wire
        .stream(
            "process.Process/Start",
            &[],
            json!({"process": bash("true")}),
        )
        .await;
    let end = frames.events().await.pop().unwrap();
    assert_eq!(
        end["end"],
        json!({"exited": true, "status": "exit status 0"})
    );
}

#[tokio::test]
async fn a_process_outlives_its_follower_and_can_be_joined_and_killed() {
    let guest = WireGuest::start().await;
    let mut frames = guest
        .wire
        .stream(
            "process.Process/Start",
            &[],
            json!({"process": bash("while read x; do echo got $x; done"), "tag": "t"}),
        )
        .await;
    let pid = started(&mut frames).await;
    drop(frames);
    let listed = guest
        .wire
        .call("process.Process/List", json!({}))
        .await
        .unwrap();
    assert_eq!(
        (
            &listed["processes"][0]["pid"],
            &listed["processes"][0]["tag"]
        ),
        (&json!(pid), &json!("t"))
    );
    let mut joined = guest
        .wire
        .stream(
            "process.Process/Connect",
            &[],
            json!({"process": {"tag": "t"}}),
        )
        .await;
    assert_eq!(started(&mut joined).await, pid);
    let input = json!({"process": {"pid": pid}, "input": {"stdin": STANDARD.encode("a\n")}});
    guest
        .wire
        .call("process.Process/SendInput", input)
        .await
        .unwrap();
    let (_, message) = joined.next().await;
    assert_eq!(text(&message["event"], "stdout"), "got a\n");
    let kill = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"});
    guest
        .wire
        .call("process.Process/SendSignal", kill.clone())
        .await
        .unwrap();
    let (_, message) = joined.next().await;
    assert_eq!(
        message["event"]["end"],
        json!({"exitCode": -1, "status": "signal: killed", "error": "signal: killed"})
    );
    // The end is kept for who comes late; a signal then finds nothing.
    let late = guest
        .wire
        .stream(
            "process.Process/Connect",
            &[],
            json!({"process": {"pid": pid}}),
        )
        .await;
    assert_eq!(late.events().await.len(), 2);
    let (status, error) = guest
        .wire
        .call("process.Process/SendSignal", kill)
        .await
        .unwrap_err();
    assert_eq!((status, &error["code"]), (404, &json!("not_found")));
}

#[tokio::test]
async fn input_can_be_closed() {
    let guest = WireGuest::start().await;
    let mut frames = guest
        .wire
        .stream(
            "process.Process/Start",
            &[],
            json!({"process": bash("cat; echo end")}),
        )
        .await;
    let pid = started(&mut frames).await;
    let body = [
        support::wire::frame(&json!({"start": {"process": {"pid": pid}}})),
        support::wire::frame(&json!({"data": {"input": {"stdin": STANDARD.encode("in ")}}})),
    ]
    .concat();
    let response = guest
        .wire
        .send(
            "POST",
            "/process.Process/StreamInput",
            &[
                ("content-type", "application/connect+json"),
                ("connect-protocol-version", "1"),
            ],
            body,
        )
        .await;
    assert_eq!(response.status(), 200);
    let close = json!({"process": {"pid": pid}});
    guest
        .wire
        .call("process.Process/CloseStdin", close)
        .await
        .unwrap();
    let events = frames.events().await;
    let out: String = events.iter().map(|event| text(event, "stdout")).collect();
    assert_eq!(out, "in end\n");
}

#[tokio::test]
async fn a_terminal_is_one_and_can_be_resized() {
    let guest = WireGuest::start().await;
    let mut frames = guest
        .wire
        .stream(
            "process.Process/Start",
            &[],
            json!({"process": bash("stty size; tty >/dev/null && echo is-a-tty; read x; stty size; exit 4"),
                   "pty": {"size": {"cols": 101, "rows": 33}}}),
        )
        .await;
    let pid = started(&mut frames).await;
    let mut seen = String::new();
    while !seen.contains("is-a-tty") {
        let (_, message) = frames.next().await;
        seen += &text(&message["event"], "pty");
    }
    assert!(seen.contains("33 101"), "{seen}");
    let resize = json!({"process": {"pid": pid}, "pty": {"size": {"cols": 55, "rows": 22}}});
    guest
        .wire
        .call("process.Process/Update", resize)
        .await
        .unwrap();
    let input = json!({"process": {"pid": pid}, "input": {"pty": STANDARD.encode("\n")}});
    guest
        .wire
        .call("process.Process/SendInput", input)
        .await
        .unwrap();
    let mut events = frames.events().await;
    assert_eq!(events.pop().unwrap()["end"]["exitCode"], 4);
    let rest: String = events.iter().map(|event| text(event, "pty")).collect();
    assert!(rest.contains("22 55"), "{rest}");
}

#[tokio::test]
async fn the_callers_time_limit_kills_the_process() {
    let guest = WireGuest::start().await;
    let frames = guest
        .wire
        .stream(
            "process.Process/Start",
            &[("connect-timeout-ms", "500")],
            json!({"process": bash("setsid sleep 1000 & echo $! > pid; sleep 1000")}),
        )
        .await;
    drop(frames);
    let file = guest.workspace.path().join("pid");
    until("the process has started", || {
        std::fs::read_to_string(&file).is_ok_and(|pid| !pid.is_empty())
    })
    .await;
    let pid = std::fs::read_to_string(&file).unwrap();
    until("the process is killed", || !alive(&pid)).await;
}

#[tokio::test]
async fn who_follows_is_told_that_the_time_is_up() {
    let guest = WireGuest::start().await;
    let mut frames = guest
        .wire
        .stream(
            "process.Process/Start",
            &[("connect-timeout-ms", "300")],
            json!({"process": bash("echo before; sleep 1000")}),
        )
        .await;
    started(&mut frames).await;
    let (_, message) = frames.next().await;
    assert_eq!(text(&message["event"], "stdout"), "before\n");
    let (last, end) = frames.next().await;
    assert!(last, "{end}");
    assert_eq!(end["error"]["code"], "deadline_exceeded");
}

#[tokio::test]
async fn only_an_init_can_freeze() {
    let guest = WireGuest::start().await;
    for method in ["Freeze", "Thaw"] {
        let procedure = format!("sandbox.v1.Life/{method}");
        let (status, error) = guest.wire.call(&procedure, json!({})).await.unwrap_err();
        assert_eq!(
            (status, &error["code"]),
            (400, &json!("failed_precondition"))
        );
    }
}

#[tokio::test]
async fn silence_is_broken_by_a_sign_of_life() {
    let guest = WireGuest::start().await;
    let mut frames = guest
        .wire
        .stream(
            "process.Process/Start",
            &[("keepalive-ping-interval", "1")],
            json!({"process": bash("sleep 30")}),
        )
        .await;
    started(&mut frames).await;
    let (_, message) = frames.next().await;
    assert_eq!(message["event"], json!({"keepalive": {}}));
}

#[tokio::test]
async fn an_end_by_a_signal_is_told_in_words() {
    let guest = WireGuest::start().await;
    for (signal, words) in [
        ("SEGV", "signal: segmentation fault"),
        ("ABRT", "signal: aborted"),
        ("HUP", "signal: hangup"),
        ("34", "signal: signal 34"),
    ] {
        let message = json!({"process": bash(&format!("kill -{signal} $$"))});
        let frames = guest
            .wire
            .stream("process.Process/Start", &[], message)
            .await;
        let end = frames.events().await.pop().unwrap();
        assert_eq!(
            end["end"],
            json!({"exitCode": -1, "status": words, "error": words})
        );
    }
}

#[tokio::test]
async fn a_program_knows_its_user_and_home() {
    let guest = WireGuest::start().await;
    let message = json!({"process": bash("[ -n \"$USER\" ] && [ \"$USER\" = \"$LOGNAME\" ] && [ -n \"$HOME$PATH\" ]")});
    let frames = guest
        .wire
        .stream("process.Process/Start", &[], message)
        .await;
    let end = frames.events().await.pop().unwrap();
    assert_eq!(end["end"]["status"], "exit status 0");
}

#[tokio::test]
async fn what_cannot_be_is_an_error_of_the_contract() {
    let guest = WireGuest::start().await;
    let unknown = json!({"process": {"pid": 999_999}});
    let (status, error) = guest
        .wire
        .call("process.Process/Update", unknown.clone())
        .await
        .unwrap_err();
    assert_eq!((status, &error["code"]), (404, &json!("not_found")));
    for (request, code) in [
        (
            json!({"process": {"cmd": "/bin/true", "cwd": "/no/such"}}),
            "invalid_argument",
        ),
        (json!({"process": {"cmd": "/no/such"}}), "not_found"),
        (json!({}), "invalid_argument"),
    ] {
        let mut frames = guest
            .wire
            .stream("process.Process/Start", &[], request)
            .await;
        let (last, end) = frames.next().await;
        assert!(last);
        assert_eq!(end["error"]["code"], code, "{end}");
    }
}
