//! Interpreters that stay alive between runs, in real sandboxes.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use crate::support::{Answer, Service, until};

fn run(service: &Service, context: &str, code: &str) -> Answer {
    let body = json!({"session_id": "s", "context": context, "code": code});
    let answer = service.post("/execute", body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer
}

fn value(answer: &Answer) -> &Value {
    let body = &answer.body;
    let main = body["context"]["main_result"].as_u64().unwrap();
    &body["results"][usize::try_from(main).unwrap()]["text/plain"]
}

#[test]
fn a_context_keeps_its_variables_and_shows_values_figures_and_exceptions() {
    let service = Service::start();
    let first = run(&service, "main", "x = 41\nprint('hello')");
    assert_eq!(first.stdout(), "hello\n");
    assert_eq!(
        first.body["context"],
        json!({"name": "main", "created": true, "lost": false})
    );
    let second = run(&service, "main", "x + 1");
    assert_eq!(value(&second), "42");
    assert_eq!(second.body["meta"]["termination"], "exited");
    let error = run(&service, "main", "1 / 0").body["error"].clone();
    assert_eq!(
        (&error["name"], &error["value"]),
        (&json!("ZeroDivisionError"), &json!("division by zero"))
    );
    let plot = run(
        &service,
        "main",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
    )
    .body;
    assert!(
        plot["results"][0]["image/png"]
            .as_str()
            .unwrap()
            .starts_with("iVBOR")
    );
    assert_eq!(plot["artifacts"][0]["kind"], "plot");
    let id = plot["artifacts"][0]["id"].as_str().unwrap();
    assert_eq!(service.get(&format!("/artifacts/{id}")).status, 200);
    // Another one knows nothing of it, and a plain run neither.
    assert_eq!(
        run(&service, "other", "x").body["error"]["name"],
        "NameError"
    );
    assert_eq!(
        service.python("print('x' in globals())").stdout(),
        "False\n"
    );
    let listed = service.get("/sessions/default/s/contexts").body;
    let names: Vec<_> = listed["contexts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|context| {
            (
                context["context"].as_str().unwrap(),
                context["runs"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(names, [("main", 4), ("other", 1)]);
}

#[test]
fn a_timeout_keeps_a_context_and_a_crash_loses_it_and_says_so() {
    let service = Service::start();
    run(&service, "main", "x = 5");
    let body = json!({
        "session_id": "s", "context": "main", "timeout_seconds": 1,
        "code": "import time\nprint('begun')\ntime.sleep(60)",
    });
    let late = service.post("/execute", body).body;
    assert_eq!(
        (&late["timed_out"], &late["exit_code"]),
        (&json!(true), &json!(124))
    );
    assert_eq!(late["stdout"], "begun\n");
    assert_eq!(late["context"]["lost"], false);
    assert_eq!(value(&run(&service, "main", "x")), "5");
    let crashed = run(&service, "main", "import os\nos.abort()").body;
    assert_eq!(crashed["exit_code"], 134);
    assert_eq!(
        crashed["context"],
        json!({"name": "main", "created": false, "lost": true, "reason": "died"})
    );
    let after = run(&service, "main", "x").body;
    assert_eq!(
        (&after["context"]["created"], &after["error"]["name"]),
        (&json!(true), &json!("NameError"))
    );
}

#[test]
fn memory_beyond_the_sandboxs_loses_the_context_and_not_the_session() {
    let service = Service::start_with(&[("SANDBOX_MEM_LIMIT", "256m")]);
    run(&service, "main", "open('kept.txt', 'w').write('x')");
    let killed = run(&service, "main", "x = b'x' * (1 << 30)").body;
    assert_eq!(killed["meta"]["termination"], "out_of_memory", "{killed}");
    assert_eq!(killed["context"]["lost"], true);
    assert_eq!(
        value(&run(&service, "main", "open('kept.txt').read()")),
        "'x'"
    );
}

#[test]
fn contexts_are_restarted_and_deleted_and_runs_of_one_wait_their_turn() {
    let service = Service::start();
    run(&service, "main", "n = 0");
    let code = "import time\nm = n\ntime.sleep(0.05)\nn = m + 1";
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| run(&service, "main", code));
        }
    });
    assert_eq!(value(&run(&service, "main", "n")), "6");
    let at = "/sessions/default/s/contexts";
    let restarted = service.post(&format!("{at}/main/restart"), json!({}));
    assert_eq!(
        (restarted.status, &restarted.body["runs"]),
        (200, &json!(0))
    );
    assert_eq!(
        run(&service, "main", "n").body["error"]["name"],
        "NameError"
    );
    let other = json!({"session_id": "s", "context": "main", "language": "bash", "code": "1"});
    let other = service.post("/execute", other);
    assert_eq!((other.status, other.code()), (409, "context_mismatch"));
    assert_eq!(service.delete(&format!("{at}/main")).status, 204);
    let gone = service.delete(&format!("{at}/main"));
    assert_eq!((gone.status, gone.code()), (404, "not_found"));
    assert_eq!(service.get(at).body["contexts"], json!([]));
    let none = service.get("/sessions/default/never/contexts");
    assert_eq!((none.status, none.code()), (404, "not_found"));
}

#[test]
fn a_run_that_is_cancelled_or_left_keeps_its_context() {
    let service = Service::start();
    run(&service, "main", "x = 5");
    let body = json!({
        "session_id": "s", "context": "main", "execution_id": "long", "wait_seconds": 0,
        "code": "import time\nx = 6\ntime.sleep(60)\nx = 7",
    });
    assert_eq!(service.post("/execute", body).status, 202);
    until("it has begun", || {
        let listed = service.get("/sessions/default/s/contexts").body;
        listed["contexts"][0]["runs"] == 2
    });
    thread::sleep(Duration::from_millis(200));
    let cancelled = service.post("/executions/long/cancel", json!({})).body;
    assert_eq!(cancelled["meta"]["termination"], "cancelled");
    assert_eq!(
        (&cancelled["exit_code"], &cancelled["context"]["lost"]),
        (&json!(130), &json!(false))
    );
    let next = run(&service, "main", "x");
    assert_eq!(
        (value(&next), &next.body["context"]["created"]),
        (&json!("6"), &json!(false))
    );
    let body = json!({
        "session_id": "s", "context": "main", "stream": true,
        "code": "print('begun', flush=True)\nx = 8\ntime.sleep(60)",
    });
    let mut events = service.stream("/execute", body);
    events.until("stdout");
    drop(events);
    let next = run(&service, "main", "x");
    assert_eq!(
        (value(&next), &next.body["context"]["created"]),
        (&json!("8"), &json!(false))
    );
}

#[test]
fn what_an_operator_limits_is_refused() {
    let service = Service::start_with(&[("SANDBOX_SESSION_CONTEXTS", "1")]);
    run(&service, "one", "1");
    let body = json!({"session_id": "s", "context": "two", "code": "1"});
    let refused = service.post("/execute", body);
    assert_eq!(
        (refused.status, refused.code()),
        (429, "context_limit_reached")
    );
    let service = Service::start_with(&[("SANDBOX_CONTEXT_IDLE_TIMEOUT", "1")]);
    run(&service, "one", "x = 1");
    thread::sleep(Duration::from_millis(1600));
    assert_eq!(run(&service, "one", "1").body["context"]["created"], true);
}

#[test]
fn a_run_in_a_context_is_streamed_and_has_a_name_like_any_other() {
    let service = Service::start();
    let body = json!({
        "session_id": "s", "context": "main", "execution_id": "once", "stream": true,
        "code": "import time\nprint('one', flush=True)\ndisplay(1)\ntime.sleep(0.1)\nn = globals().get('n', 0) + 1\nn",
    });
    let mut events = service.stream("/execute", body.clone());
    let names: Vec<_> = events.rest().into_iter().map(|event| event.name).collect();
    assert_eq!(names[0], "start");
    assert_eq!(names.iter().filter(|name| *name == "display").count(), 2);
    assert_eq!(names.last().unwrap(), "result");
    // The same name is the same run.
    let mut again = service.stream("/execute", body);
    let last = again.rest().pop().unwrap();
    assert_eq!(last.data["results"][1]["text/plain"], "1");
    let audit = service.get("/executions?execution_id=once").body;
    assert_eq!(audit["executions"].as_array().unwrap().len(), 1);
    let detached = json!({
        "session_id": "s", "context": "main", "execution_id": "later", "wait_seconds": 0,
        "code": "time.sleep(0.2)\nn + 41",
    });
    assert_eq!(service.post("/execute", detached).status, 202);
    let done = service.get("/executions/later?wait_seconds=20");
    assert_eq!((done.status, value(&done)), (200, &json!("42")));
}
