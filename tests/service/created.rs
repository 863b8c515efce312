//! Sessions that are created as somebody asks for them.

use serde_json::{Value, json};

use crate::support::{Answer, SECRET, Service, token, until};

const PATH: &str = "/sessions/default/s";

fn create(service: &Service, body: Value) -> Answer {
    service.post(PATH, body)
}

#[test]
fn a_session_is_what_was_asked_for() {
    let service = Service::start();
    let asked = json!({
        "backend": "local",
        "capabilities": ["exec", "files"],
        "env": {"COLOR": "rot ä", "OWN": "session"},
        "network": "disabled",
        "limits": {"memory": "64m", "cpus": 0.5, "pids": 64, "disk": 10_485_760, "timeout_seconds": 0.5},
        "files": [
            {"path": "src/app.py", "content": "import os\nprint(os.environ['COLOR'])\n"},
            {"path": "run.sh", "content": "ZWNobyBoaQo=", "encoding": "base64", "mode": "0755"},
        ],
        "idle_timeout_seconds": 600,
        "ttl_seconds": 3600,
        "labels": {"team": "rot", "example.org/run": "7"},
    });
    let made = create(&service, asked.clone());
    assert_eq!(made.status, 201, "{}", made.body);
    let body = &made.body;
    assert_eq!(body["state"], "running");
    assert_eq!(body["labels"], asked["labels"]);
    assert_eq!(body["env"], json!(["COLOR", "OWN"]));
    assert!(!body.to_string().contains("rot ä"), "{body}");
    assert_eq!(body["limits"]["memory_bytes"], 64 << 20);
    assert_eq!(body["limits"]["pids"], 64);
    assert_eq!(
        (&body["idle_timeout_seconds"], &body["timeout_seconds"]),
        (&json!(600), &json!(0.5))
    );
    assert!(body["ends"].as_str().unwrap() > body["expires"].as_str().unwrap());

    let run = service.post(
        "/bash",
        json!({"session_id": "s", "command": "python3 src/app.py; ./run.sh; echo $OWN"}),
    );
    assert_eq!(run.stdout(), "rot ä\nhi\nsession\n", "{}", run.body);
    assert_eq!(run.body["meta"]["session_created"], false);
    let own = service.post(
        "/bash",
        json!({"session_id": "s", "command": "echo $OWN", "env": {"OWN": "request"}}),
    );
    assert_eq!(own.stdout(), "request\n");
    let process = service.post(
        "/processes",
        json!({"session_id": "s", "command": "echo $COLOR > seen"}),
    );
    assert_eq!(process.status, 201);
    until("the process saw it", || {
        service.bash("cat seen").stdout() == "rot ä\n"
    });
    // Its own default for the time of a run, and its own memory.
    let slow = service.bash("sleep 60");
    assert_eq!(
        slow.body["meta"]["termination"], "timed_out",
        "{}",
        slow.body
    );
    let large = service.post(
        "/execute",
        json!({"session_id": "s", "code": "bytearray(100 << 20)", "timeout_seconds": 20}),
    );
    assert_ne!(large.body["exit_code"], 0);
    assert_eq!(large.body["meta"]["limits"]["memory_bytes"], 64 << 20);

    // The same again changes nothing.
    service.bash("echo changed > run.sh");
    let again = create(&service, asked.clone());
    assert_eq!(again.status, 200, "{}", again.body);
    assert_eq!(service.bash("cat run.sh").stdout(), "changed\n");
    let mut other = asked;
    other["labels"]["team"] = json!("blau");
    for body in [other, json!({})] {
        let refused = create(&service, body);
        assert_eq!((refused.status, refused.code()), (409, "session_exists"));
    }
}

#[test]
fn a_session_without_wishes_is_the_one_that_a_first_call_makes() {
    let service = Service::start();
    service.bash("echo kept > file");
    assert_eq!(create(&service, json!({})).status, 200);
    assert_eq!(
        create(&service, json!({"labels": {"a": "b"}})).code(),
        "session_exists"
    );
    assert_eq!(service.bash("cat file").stdout(), "kept\n");
    assert_eq!(service.delete(PATH).status, 204);
    assert_eq!(create(&service, json!({"labels": {"a": "b"}})).status, 201);
    assert_eq!(service.bash("ls -A --ignore=.sandbox").stdout(), "");
}

#[test]
fn what_was_asked_for_survives_a_restart() {
    let mut service = Service::start();
    let asked = json!({"env": {"A": "1"}, "labels": {"team": "rot"}, "limits": {"memory": "100m", "timeout_seconds": 9}});
    assert_eq!(create(&service, asked.clone()).status, 201);
    service.restart();
    let session = service.get(PATH).body;
    assert_eq!(
        (&session["labels"]["team"], &session["timeout_seconds"]),
        (&json!("rot"), &json!(9.0))
    );
    assert_eq!(session["limits"]["memory_bytes"], 100 << 20);
    assert_eq!(service.bash("echo $A").stdout(), "1\n");
    assert_eq!(create(&service, asked).status, 200);
}

#[test]
fn sessions_are_found_by_their_labels() {
    let service = Service::start();
    for (name, team) in [("a", "rot"), ("b", "blau"), ("c", "rot")] {
        let body = json!({"labels": {"team": team, "eq": "x=y"}});
        assert_eq!(
            service
                .post(&format!("/sessions/default/{name}"), body)
                .status,
            201
        );
    }
    service.bash("true");
    let found = |query: &str| -> Vec<String> {
        let answer = service.get(&format!("/sessions?{query}"));
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        let sessions = answer.body["sessions"].as_array().unwrap().clone();
        sessions
            .iter()
            .map(|it| it["session_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(found("label=team%3Drot"), ["a", "c"]);
    assert_eq!(found("label=eq%3Dx%3Dy"), ["a", "b", "c"]);
    assert_eq!(found("label=team%3D"), Vec::<String>::new());
    assert_eq!(found("label=team%3Drot&limit=1"), ["a"]);
    assert_eq!(service.get("/sessions?label=team").status, 400);
}

#[test]
fn usage_tells_what_the_workspace_takes() {
    let service = Service::start();
    service.bash("mkdir d; head -c 3000000 /dev/zero > d/data; ln -s / root; ln d/data hard");
    let usage = service.get(PATH).body["usage"].clone();
    let disk = usage["disk_bytes"].as_u64().unwrap();
    assert!((3_000_000..3_300_000).contains(&disk), "{usage}");
    assert_eq!(
        service.get("/sessions").body["sessions"][0]["usage"]["disk_bytes"],
        Value::Null
    );
}

#[test]
fn time_to_live_ends_a_session_that_is_used() {
    let service = Service::start();
    assert_eq!(create(&service, json!({"ttl_seconds": 1})).status, 201);
    // A call each time keeps it from being idle; one of them gets another session.
    until("a call finds the session over", || {
        let run = service.bash("true");
        run.status == 200 && run.body["meta"]["session_created"] == true
    });
    assert!(service.get(PATH).body.get("ends").is_none());
}

#[test]
fn its_own_idle_timeout_ends_a_session_that_nobody_uses() {
    let service = Service::start();
    let other = service.post("/sessions/default/other", json!({}));
    assert_eq!(other.status, 201, "{}", other.body);
    assert_eq!(
        create(&service, json!({"idle_timeout_seconds": 1})).status,
        201
    );
    until("it has ended", || service.get(PATH).status == 404);
    assert_eq!(service.get("/sessions/default/other").status, 200);
}

#[test]
fn the_same_request_is_the_same_however_it_is_written() {
    let service = Service::start();
    let file = |content: &str, more: Value| {
        let mut file = json!({"path": "a", "content": content});
        let more = more.as_object().unwrap().clone();
        file.as_object_mut().unwrap().extend(more);
        json!({"files": [file]})
    };
    let base64 = json!({"encoding": "base64"});
    for (first, again) in [
        (json!({}), json!({"limits": {}})),
        (json!({}), json!({"backend": "local"})),
        (json!({}), json!({"capabilities": ["exec"]})),
        (
            json!({"capabilities": ["files", "exec"]}),
            json!({"capabilities": ["exec", "files"]}),
        ),
        (file("x", json!({})), file("x", json!({"mode": "0644"}))),
        (file("x", json!({})), file("eA==", base64)),
    ] {
        assert_eq!(create(&service, first.clone()).status, 201, "{first}");
        let answer = create(&service, again.clone());
        assert_eq!(answer.status, 200, "{first} {again}: {}", answer.body);
        assert_eq!(service.delete(PATH).status, 204);
    }
    // What was asked for by name is not what happened to be the default.
    assert_eq!(create(&service, json!({})).status, 201);
    let answer = create(&service, json!({"network": "disabled"}));
    assert_eq!(answer.code(), "session_exists", "{}", answer.body);
}

#[test]
fn a_ceiling_that_was_lowered_holds_for_sessions_that_are_kept() {
    let mut service = Service::start();
    let asked = json!({"limits": {"timeout_seconds": 600}});
    assert_eq!(create(&service, asked).status, 201);
    service.set("SANDBOX_MAX_TIMEOUT_SEC", "1");
    service.set("SANDBOX_TIMEOUT_SEC", "1");
    service.restart();
    let run = service.bash("sleep 60");
    assert_eq!(run.body["meta"]["termination"], "timed_out", "{}", run.body);
}

#[test]
fn a_workspace_that_cannot_all_be_counted_has_no_size() {
    let service = Service::start();
    service.bash("mkdir closed; head -c 3000000 /dev/zero > closed/data; chmod 000 closed");
    let usage = service.get(PATH).body["usage"].clone();
    assert_eq!(usage["disk_bytes"], Value::Null, "{usage}");
    service.bash("chmod 700 closed");
    let usage = service.get(PATH).body["usage"].clone();
    assert!(usage["disk_bytes"].as_u64().unwrap() > 3_000_000, "{usage}");
}

#[test]
fn nothing_above_the_operators_ceilings_is_given() {
    let service = Service::start_with(&[
        ("SANDBOX_MAX_MEM_LIMIT", "1g"),
        ("SANDBOX_MAX_IDLE_TIMEOUT", "1000"),
        ("SANDBOX_MAX_SESSION_TTL", "2000"),
    ]);
    for (field, bad) in [
        ("limits.memory", json!({"limits": {"memory": "1025m"}})),
        ("limits.memory", json!({"limits": {"memory": 1}})),
        ("limits.cpus", json!({"limits": {"cpus": 1.5}})),
        ("limits.cpus", json!({"limits": {"cpus": 0}})),
        ("limits.cpus", json!({"limits": {"cpus": -1}})),
        ("limits.pids", json!({"limits": {"pids": 257}})),
        ("limits.pids", json!({"limits": {"pids": 0}})),
        ("limits.pids", json!({"limits": {"pids": 15}})),
        ("limits.disk", json!({"limits": {"disk": "2g"}})),
        ("limits.disk", json!({"limits": {"disk": 0}})),
        (
            "limits.timeout_seconds",
            json!({"limits": {"timeout_seconds": 3601}}),
        ),
        (
            "limits.timeout_seconds",
            json!({"limits": {"timeout_seconds": 0}}),
        ),
        (
            "idle_timeout_seconds",
            json!({"idle_timeout_seconds": 1001}),
        ),
        ("idle_timeout_seconds", json!({"idle_timeout_seconds": 0})),
        ("ttl_seconds", json!({"ttl_seconds": 2001})),
        ("ttl_seconds", json!({"ttl_seconds": u64::MAX})),
    ] {
        let answer = create(&service, bad.clone());
        assert_eq!(
            (answer.status, answer.code()),
            (400, "invalid_request"),
            "{bad}"
        );
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(
            detail.starts_with(&format!("`{field}` is not between")),
            "{bad}: {detail}"
        );
    }
    let most = json!({"limits": {"memory": "1g", "cpus": 1, "pids": 256, "disk": "1g"}, "idle_timeout_seconds": 1000, "ttl_seconds": 2000});
    assert_eq!(create(&service, most).status, 201);
    assert_eq!(service.delete(PATH).status, 204);
    // The least that may be asked for is enough to run something.
    let least = json!({"limits": {"memory": "16m", "cpus": 0.01, "pids": 16, "disk": 1}});
    let made = create(&service, least);
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(service.bash("echo hi | cat").stdout(), "hi\n");
}

#[test]
fn what_cannot_be_given_is_refused_and_nothing_is_made() {
    let service = Service::start();
    for unsupported in [
        json!({"backend": "docker"}),
        json!({"image": "python"}),
        json!({"repo": {"url": "https://example.org/x"}}),
        json!({"mounts": [{"source": "/etc", "target": "/x", "mode": "ro"}]}),
        json!({"network": "allow_all"}),
        json!({"network": {"allow": ["example.org"]}}),
        json!({"capabilities": ["network"]}),
    ] {
        let answer = create(&service, unsupported.clone());
        assert_eq!(
            (answer.status, answer.code()),
            (422, "unsupported"),
            "{unsupported}: {}",
            answer.body
        );
    }
    let many: serde_json::Map<String, Value> =
        (0..65).map(|n| (format!("n{n}"), json!(""))).collect();
    for bad in [
        json!({"capabilities": ["fly"]}),
        json!({"network": "some"}),
        json!({"network": {"allow": ["a"], "deny": ["b"]}}),
        json!({"labels": {"a b": ""}}),
        json!({"labels": {"a": "b\n"}}),
        json!({"labels": {"a": "x".repeat(257)}}),
        json!({"labels": many}),
        json!({"env": {"A=B": "c"}}),
        json!({"env": {"A": "\0"}}),
        json!({"limits": {"memory": "lots"}}),
        json!({"limits": {"cpus": 1e308}}),
        json!({"limits": {"gpu": 1}}),
        json!({"files": [{"path": "a", "content": "!", "encoding": "base64"}]}),
        json!({"files": [{"path": "ok", "content": ""}, {"path": "../out", "content": ""}]}),
        json!({"files": [{"path": "/etc/passwd", "content": ""}]}),
        json!({"tenant_id": "other"}),
    ] {
        let answer = create(&service, bad.clone());
        assert_eq!(answer.status, 400, "{bad}: {}", answer.body);
    }
    let file = create(
        &service,
        json!({"files": [{"path": "a", "content": ""}, {"path": "a/b", "content": ""}]}),
    );
    assert_eq!(file.status, 422, "{}", file.body);
    assert!(
        file.body["detail"]
            .as_str()
            .unwrap()
            .starts_with("`files[1]`: "),
        "{}",
        file.body
    );
    until("nothing is left", || {
        service.get("/sessions").body["sessions"] == json!([])
    });
    for path in [
        "/sessions/default/a%2Fb",
        "/sessions/a%20b/s",
        "/sessions/default/..",
    ] {
        let answer = service.post(path, json!({}));
        assert!(
            matches!(answer.status, 400 | 404 | 405),
            "{path}: {}",
            answer.status
        );
    }
}

#[test]
fn a_tenant_creates_its_own_sessions_and_the_trail_says_who() {
    let service = Service::start_with(&[("SANDBOX_JWT_SECRET", SECRET)]);
    let ours = service
        .client()
        .with_token(&token(&["--tenant", "ours", "--subject", "ada"]));
    let admin = service
        .client()
        .with_token(&token(&["--tenant", "root", "--admin"]));
    assert_eq!(ours.post("/sessions/theirs/s", json!({})).status, 403);
    assert_eq!(
        service.client().post("/sessions/ours/s", json!({})).status,
        401
    );
    let asked = json!({"labels": {"a": "b"}});
    assert_eq!(ours.post("/sessions/ours/s", asked.clone()).status, 201);
    assert_eq!(ours.post("/sessions/ours/s", asked).status, 200);
    assert_eq!(ours.post("/sessions/ours/s", json!({})).status, 409);
    let file = json!({"files": [{"path": "../out", "content": ""}]});
    assert_eq!(ours.post("/sessions/ours/bad", file).status, 400);
    assert_eq!(admin.post("/sessions/other/s", json!({})).status, 201);
    let entries = || {
        let trail = admin.send("GET", "/audit?tenant_id=ours", &[], None);
        String::from_utf8(trail.bytes).unwrap()
    };
    until("the records", || {
        entries().matches("session_created").count() >= 3
    });
    let lines = entries();
    let made: Vec<(String, String, String)> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|record| record["action"] == "session_created")
        .map(|record| {
            let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
            (text("session_id"), text("subject"), text("outcome"))
        })
        .collect();
    let ada = |session: &str, outcome: &str| (session.into(), "ada".into(), outcome.into());
    let mut want = [
        ada("s", "ok"),
        ada("s", "session_exists"),
        ada("bad", "invalid_path"),
    ];
    // The beginning of a session is told beside the answer.
    let mut made = made;
    made.sort();
    want.sort();
    assert_eq!(made, want, "{lines}");
}
