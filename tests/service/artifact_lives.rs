//! From when to when an artifact can be fetched, and what is left of it after.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{Answer, Service, until};

fn fetch(service: &Service, artifact: &Value) -> Answer {
    service.get(&format!("/artifacts/{}", artifact["id"].as_str().unwrap()))
}

fn made(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body["artifacts"][0].clone()
}

fn listed(service: &Service, session: &str) -> usize {
    let answer = service.get(&format!("/artifacts?session_id={session}"));
    answer.body["artifacts"].as_array().unwrap().len()
}

/// A picture, then a wait for the file `go`.
const SHOWS_AND_WAITS: &str = "import os, time\nfrom PIL import Image\n\
     display(Image.new('RGB', (40, 30), 'red'))\n\
     while not os.path.exists('go'): time.sleep(0.01)\n";

#[test]
fn it_can_be_fetched_as_soon_as_it_is_told_of() {
    let service = Service::start();
    let mut run = service.stream(
        "/execute",
        json!({"session_id": "s", "code": SHOWS_AND_WAITS}),
    );
    let told = run.until("artifact").data;
    // The program waits, so its run has not ended.
    let fetched = fetch(&service, &told);
    assert_eq!(fetched.status, 200, "{}", fetched.body);
    assert!(fetched.bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
    assert_eq!(listed(&service, "s"), 1);
    assert_eq!(service.bash("touch go").status, 200);
    assert_eq!(run.until("result").data["artifacts"][0]["id"], told["id"]);
    assert_eq!(fetch(&service, &told).bytes, fetched.bytes);
}

#[test]
fn what_a_cancelled_run_had_shown_stays() {
    let mut service = Service::start();
    let mut run = service.stream(
        "/execute",
        json!({"session_id": "s", "code": SHOWS_AND_WAITS, "execution_id": "mine"}),
    );
    let told = run.until("artifact").data;
    let cancelled = service.post("/executions/mine/cancel", json!({}));
    assert!(cancelled.status < 300, "{}", cancelled.body);
    let result = run.until("result").data;
    assert_eq!(result["meta"]["termination"], "cancelled");
    service.terminate();
    assert!(service.wait().success());
    service.restart();
    assert!(fetch(&service, &told).bytes.starts_with(b"\x89PNG"));
}

#[test]
fn after_kill_9_those_that_were_written_are_there() {
    let mut service = Service::start();
    let first = made(&service.bash("echo one > f"));
    // The writer keeps the order: once the store has a later one, it has this one.
    let database = service.state().join("sandboxd.db");
    assert!(database.exists(), "the store is where this test looks");
    until("it is in the store", || {
        rows(&database, first["id"].as_str().unwrap()) == 1
    });
    service.restart();
    assert_eq!(fetch(&service, &first).bytes, b"one\n");
}

/// By another reader than the service's own.
fn rows(database: &Path, id: &str) -> u64 {
    let script = "import sqlite3, sys\n\
         db = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True, timeout=10)\n\
         print(db.execute(\"select count(*) from artifacts where ? in ('', id)\", [sys.argv[2]]).fetchone()[0])";
    let printed = python(&[script, database.to_str().unwrap(), id]);
    printed.trim().parse().unwrap()
}

fn python(arguments: &[&str]) -> String {
    let output = Command::new("/usr/bin/python3")
        .arg("-c")
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_session_that_ends_at_once_leaves_no_record() {
    let service = Service::start();
    let mut gone = Vec::new();
    for n in 0..15 {
        let body = json!({"session_id": "short", "command": format!("echo {n} > f")});
        gone.push(made(&service.post("/bash", body)));
        // The records are written behind the answers.
        assert_eq!(service.delete("/sessions/default/short").status, 204);
        assert_eq!(fetch(&service, &gone[n]).status, 404, "{n}");
    }
    let database = service.state().join("sandboxd.db");
    until("nothing of them is in the store", || {
        rows(&database, "") == 0
    });
    for artifact in &gone {
        assert_eq!(fetch(&service, artifact).code(), "not_found");
    }
    let sessions = service.get("/sessions?tenant_id=default");
    assert_eq!(sessions.body["sessions"], json!([]), "a look makes none");
}

#[test]
fn a_session_that_ends_under_a_run_leaves_no_record() {
    let service = Service::start_with(&[("SANDBOX_ARTIFACT_FILES", "100000")]);
    let database = service.state().join("sandboxd.db");
    let code = "from PIL import Image\nimage = Image.new('RGB', (4, 3))\n\
                while True: display(image)\n";
    for _ in 0..5 {
        let mut run = service.stream("/execute", json!({"session_id": "s", "code": code}));
        let told = run.until("artifact").data;
        // Some are on their way to the store now, whatever its moment is.
        assert_eq!(service.delete("/sessions/default/s").status, 204);
        run.rest();
        assert_eq!(fetch(&service, &told).code(), "not_found");
    }
    // Written in order: all that came before this is written with it.
    let body = json!({"session_id": "other", "command": "echo > f"});
    let later = made(&service.post("/bash", body));
    until("the writer came by", || {
        rows(&database, later["id"].as_str().unwrap()) == 1
    });
    until("nothing else is in the store", || rows(&database, "") == 1);
}

#[test]
fn what_is_written_after_its_session_ended_does_not_stay() {
    let dir = tempfile::TempDir::new().unwrap();
    let log = dir.path().join("log");
    let service = Service::start_logging(&[], fs::File::create(&log).unwrap());
    let database = service.state().join("sandboxd.db");
    assert_eq!(service.bash("true").status, 200);
    let held = Held::start(&database);
    let artifact = made(&service.bash("echo > f"));
    until("it could not be written", || {
        fs::read_to_string(&log)
            .unwrap()
            .contains("failed to write artifacts")
    });
    drop(held);
    // Before it is tried again.
    assert_eq!(service.delete("/sessions/default/s").status, 204);
    let body = json!({"session_id": "other", "command": "echo > f"});
    let later = made(&service.post("/bash", body));
    until("the writer came by", || {
        rows(&database, later["id"].as_str().unwrap()) == 1
    });
    until("nothing else is in the store", || rows(&database, "") == 1);
    assert_eq!(fetch(&service, &artifact).code(), "not_found");
}

/// Nobody else writes to the database until it is dropped.
struct Held(Child);

impl Held {
    fn start(database: &Path) -> Self {
        let script = "import sqlite3, sys\n\
             db = sqlite3.connect(sys.argv[1], timeout=10, isolation_level=None)\n\
             db.execute('begin immediate')\n\
             print('held', flush=True)\n\
             sys.stdin.read()";
        let mut child = Command::new("/usr/bin/python3")
            .args(["-c", script])
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "held\n");
        Self(child)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_record_without_its_session_is_none_and_makes_none() {
    let service = Service::start();
    let database = service.state().join("sandboxd.db");
    let artifact = made(&service.bash("echo > f"));
    let id = artifact["id"].as_str().unwrap();
    until("it is in the store", || rows(&database, id) == 1);
    // As a service leaves it that was killed while the session ended.
    let orphan = "import sqlite3, sys\n\
         db = sqlite3.connect(sys.argv[1], timeout=10)\n\
         db.execute(\"update artifacts set session_id = 'ended' where id = ?\", [sys.argv[2]])\n\
         db.commit()";
    python(&[orphan, database.to_str().unwrap(), id]);
    assert_eq!(fetch(&service, &artifact).code(), "not_found");
    assert_eq!(listed(&service, "ended"), 0);
    assert_eq!(service.get("/sessions/default/ended").status, 404);
}

#[test]
fn the_copies_that_make_room_are_deleted() {
    let service = Service::start_with(&[("SANDBOX_TENANT_ARTIFACTS", "2500")]);
    for n in 0..6 {
        service.bash(&format!("head -c 1000 /dev/zero > f{n}"));
    }
    until("two are left, and the copies of two", || {
        let copies = service.bash("ls .sandbox/artifacts | wc -l");
        listed(&service, "s") == 2 && copies.stdout() == "2\n"
    });
}

#[test]
fn those_of_another_session_make_room_too_and_other_tenants_do_not() {
    let service = Service::start_with(&[("SANDBOX_TENANT_ARTIFACTS", "2500")]);
    let run = |tenant: &str, session: &str| {
        let command = "head -c 1000 /dev/zero > \"$RANDOM$RANDOM\"";
        let body = json!({"tenant_id": tenant, "session_id": session, "command": command});
        made(&service.post("/bash", body))
    };
    let (other, first) = (run("b", "s"), run("a", "one"));
    run("a", "two");
    run("a", "two");
    until("the oldest went", || fetch(&service, &first).status == 404);
    assert_eq!(fetch(&service, &other).status, 200);
}
