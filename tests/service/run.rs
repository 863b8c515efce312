//! What programs do, and what the caller learns of it.

use std::{
    io::Write as _,
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::{Service, processes_with, until};

#[test]
fn python_runs_and_says_how() {
    let service = Service::start();
    let answer =
        service.python("import sys; print(6 * 7); print('x', file=sys.stderr); sys.exit(3)");
    assert_eq!(answer.status, 200);
    let body = &answer.body;
    assert_eq!(
        (&body["stdout"], &body["stderr"], &body["exit_code"]),
        (&json!("42\n"), &json!("x\n"), &json!(3))
    );
    assert_eq!(
        (&body["truncated"], &body["timed_out"]),
        (&json!(false), &json!(false))
    );
    let meta = &body["meta"];
    assert_eq!(
        (
            &meta["backend"],
            &meta["language"],
            &meta["session_created"],
            &meta["termination"]
        ),
        (
            &json!("local"),
            &json!("python"),
            &json!(true),
            &json!("exited")
        )
    );
    assert_eq!(meta["network"], "disabled");
    assert_eq!(
        (&meta["stdout_bytes"], &meta["stderr_bytes"]),
        (&json!(3), &json!(2))
    );
    assert!(body["duration"].as_f64().unwrap() > 0.0);
    assert!(meta["usage"]["cpu_seconds"].as_f64().unwrap() > 0.0);
    assert!(meta["usage"]["peak_memory_bytes"].as_u64().unwrap() > 1_000_000);
    assert!(!body["execution_id"].as_str().unwrap().is_empty());
    assert_eq!(service.python("1").body["meta"]["session_created"], false);
}

#[test]
fn no_program_begins_with_a_signal_ignored_however_the_service_was_started() {
    // Which is with some, by `Service`.
    let service = Service::start();
    let answer = service.bash("kill -HUP $$; kill -INT $$; kill -QUIT $$; echo ignored");
    assert_eq!(answer.stdout(), "");
    let code = "import signal as s; print(*[s.getsignal(it) for it in (s.SIGHUP, s.SIGQUIT)], s.getsignal(s.SIGINT) is s.default_int_handler)";
    let mut warm = 0;
    for _ in 0..3 {
        let answer = service.python(code);
        assert_eq!(answer.stdout(), "0 0 True\n");
        warm += u32::from(answer.body["meta"]["warm"] == true);
    }
    assert!(warm > 0);
}

#[test]
fn a_run_gets_its_input_arguments_environment_and_files() {
    let service = Service::start();
    let answer = service.post(
        "/execute",
        json!({
            "session_id": "s",
            "code": "import sys, os; print(sys.stdin.read(), sys.argv[1:], os.environ['X'], open('d/a.txt').read(), open('b').read())",
            "stdin": "in\n", "args": ["--a", "b c"], "env": {"X": "y=z"},
            "files": [{"path": "d/a.txt", "content": "A"}, {"path": "b", "content": "Qg==", "encoding": "base64"}],
        }),
    );
    assert_eq!(answer.stdout(), "in\n ['--a', 'b c'] y=z A B\n");
    let answer = service.post(
        "/bash",
        json!({"session_id": "s", "command": "pwd; cat; echo $Y", "cwd": "d", "stdin": "i\n", "env": {"Y": "1"}}),
    );
    assert_eq!(answer.stdout(), "/workspace/d\ni\n1\n");
}

#[test]
fn languages_come_from_the_table() {
    let service = Service::start();
    let run = |language: &str, code: &str| {
        service.post(
            "/execute",
            json!({"session_id": "s", "language": language, "code": code}),
        )
    };
    assert_eq!(run("bash", "echo ${BASH_VERSION:+yes}").stdout(), "yes\n");
    assert_eq!(run("sh", "echo $((6*7))").stdout(), "42\n");
    assert_eq!(run("perl", "print 6*7").stdout(), "42");
    let unknown = run("cobol", "x");
    assert_eq!((unknown.status, unknown.code()), (422, "unknown_language"));
    let missing = run("ruby", "puts 1");
    if missing.status != 200 {
        assert_eq!((missing.status, missing.code()), (422, "not_installed"));
    }
}

#[test]
fn without_a_session_a_run_leaves_nothing() {
    let service = Service::start();
    let answer = service.post("/bash", json!({"command": "echo 1 > f; pwd"}));
    assert_eq!(answer.stdout(), "/workspace\n");
    until("the sandbox is gone", || {
        service.get("/sessions").body["sessions"] == json!([])
            && std::fs::read_dir(service.state().join("workspaces"))
                .unwrap()
                .count()
                == 0
    });
}

#[test]
fn a_gibibyte_of_output_is_cut_and_counted() {
    let service = Service::start_with(&[("SANDBOX_SPILL_LIMIT", "0")]);
    let answer = service.bash("echo first; head -c 1073741824 /dev/zero | tr '\\0' x; echo last");
    let stdout = answer.stdout();
    assert!(stdout.starts_with("first\nxx") && stdout.ends_with("xxlast\n"));
    assert!(stdout.len() < 1_100_000 && stdout.contains("bytes omitted"));
    assert_eq!(answer.body["truncated"], true);
    assert_eq!(answer.body["meta"]["stdout_bytes"], 1_073_741_824 + 11);
}

#[test]
fn output_that_is_not_utf8_or_has_no_newline_arrives() {
    let service = Service::start();
    assert_eq!(service.bash(r"printf 'a\xffb'").stdout(), "a\u{fffd}b");
    assert_eq!(service.bash("printf none").stdout(), "none");
}

#[test]
fn a_timeout_ends_all_that_was_started_and_keeps_what_was_printed() {
    let service = Service::start();
    let mark = format!("7{}", std::process::id() + 1_000_000);
    let answer = service.post(
        "/execute",
        json!({"session_id": "s", "timeout_seconds": 1, "code": format!(
            "import os, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('before')
subprocess.Popen(['setsid', 'sleep', '{mark}'])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execvp('sleep', ['sleep', '{mark}'])
    os._exit(0)
time.sleep(1000)"
        )}),
    );
    assert_eq!(answer.stdout(), "before\n");
    assert_eq!(
        (&answer.body["timed_out"], &answer.body["exit_code"]),
        (&json!(true), &json!(124))
    );
    assert_eq!(answer.body["meta"]["termination"], "timed_out");
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    assert_eq!(service.bash("echo alive").stdout(), "alive\n");
}

#[test]
fn a_background_child_that_holds_stdout_does_not_hold_the_answer() {
    let service = Service::start();
    let began = Instant::now();
    let answer = service.bash("sleep 30 & echo done");
    assert_eq!(answer.stdout(), "done\n");
    assert!(began.elapsed() < Duration::from_secs(15));
    // It lives until its session ends.
    assert_eq!(service.bash("pgrep -c sleep").stdout(), "1\n");
}

#[test]
fn a_client_that_disconnects_kills_its_run() {
    let service = Service::start();
    let mark = format!("8{}", std::process::id() + 1_000_000);
    let body = json!({"session_id": "s", "command": format!("setsid sleep {mark} & sleep {mark}")})
        .to_string();
    let mut stream = TcpStream::connect(service.url.strip_prefix("http://").unwrap()).unwrap();
    write!(
        stream,
        "POST /bash HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    until("the run has started", || processes_with(&mark).len() >= 3);
    drop(stream);
    until("the run is gone", || processes_with(&mark).is_empty());
    assert_eq!(service.bash("echo alive").stdout(), "alive\n");
}

#[test]
fn kill_everything_ends_the_run_and_not_the_sandbox() {
    let service = Service::start();
    service.bash("echo kept > f");
    let answer = service.bash("kill -9 -1; echo survived");
    assert_eq!(answer.status, 200);
    let again = service.bash("cat f");
    assert_eq!(
        (again.stdout(), &again.body["meta"]["session_created"]),
        ("kept\n", &json!(false))
    );
    assert_eq!(
        service
            .python("import os; os.kill(1, 9); os.kill(1, 19); print('no')")
            .stdout(),
        "no\n"
    );
    assert_eq!(service.bash("cat f").stdout(), "kept\n");
    // Nobody outside shares a process group with the sandbox.
    service.python("import os; os.kill(0, 9)");
    assert_eq!(service.get("/healthz").status, 200);
}

#[test]
fn several_runs_of_one_session_go_on_at_once() {
    let service = Service::start();
    service.bash("true");
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(service.bash("sleep 1; echo x").stdout(), "x\n"));
        }
    });
    assert!(
        began.elapsed() < Duration::from_millis(3500),
        "{:?}",
        began.elapsed()
    );
}
