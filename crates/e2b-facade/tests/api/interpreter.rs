//! The code interpreter's port.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Sandbox, start};

const PORT: &str = "49999";

async fn execute(api: &Api, sandbox: &Sandbox, body: Value) -> Vec<Value> {
    let answer = api
        .to(sandbox, PORT, "POST", "/execute", body.to_string())
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.bytes.is_ascii());
    let mut lines: Vec<Value> = answer
        .text()
        .split_terminator('\n')
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.pop().unwrap(), json!({"type": "end_of_execution"}));
    lines
}

async fn contexts(api: &Api, sandbox: &Sandbox, method: &str, path: &str, body: Value) -> Answer {
    api.to(sandbox, PORT, method, path, body.to_string()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn code_runs_in_a_context_that_stays() {
    let api = start().await;
    let sandbox = api.create(json!({})).await;
    let lines = execute(
        &api,
        &sandbox,
        json!({"code": "x = 'ä\\u2028'\nprint(x)\n1 + 1"}),
    )
    .await;
    assert_eq!(
        lines[0],
        json!({"type": "number_of_executions", "execution_count": 1})
    );
    assert_eq!(lines[1]["type"], "stdout");
    assert_eq!(lines[1]["text"], "ä\u{2028}\n");
    assert_eq!(lines[1]["timestamp"], 1_700_000_000_000_000_000_i64);
    assert_eq!(
        lines[2],
        json!({"type": "result", "is_main_result": true, "text": "2"})
    );
    let lines = execute(
        &api,
        &sandbox,
        json!({"code": "len(x)", "language": "python"}),
    )
    .await;
    assert_eq!(lines[0]["execution_count"], 2);
    assert_eq!(lines[1]["text"], "2");
    let lines = execute(&api, &sandbox, json!({"code": "1/0"})).await;
    assert_eq!(
        (&lines[1]["type"], &lines[1]["name"], &lines[1]["value"]),
        (
            &json!("error"),
            &json!("ZeroDivisionError"),
            &json!("division by zero")
        )
    );
    assert!(
        lines[1]["traceback"]
            .as_str()
            .unwrap()
            .contains("ZeroDivisionError")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_of_the_environment_are_for_one_run() {
    let api = start().await;
    let sandbox = api.create(json!({"envVars": {"KEPT": "1"}})).await;
    for (language, code) in [
        (
            "python",
            "import os\nprint(os.environ.get('ONCE'), os.environ.get('KEPT'))",
        ),
        ("bash", "echo ${ONCE-None} $KEPT"),
    ] {
        let run = |env: Value| json!({"code": code, "language": language, "env_vars": env});
        let env = json!({"ONCE": "a'b", "KEPT": "2"});
        let lines = execute(&api, &sandbox, run(env)).await;
        assert_eq!(lines[1]["text"], "a'b 2\n", "{language}");
        let lines = execute(&api, &sandbox, run(Value::Null)).await;
        assert_eq!(lines[1]["text"], "None 1\n", "{language}");
    }
    let bad = json!({"code": "1", "env_vars": {"A B": "1"}}).to_string();
    let bad = api.to(&sandbox, PORT, "POST", "/execute", bad).await;
    assert_eq!(bad.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn contexts_are_made_listed_restarted_and_removed() {
    let api = start().await;
    let sandbox = api.create(json!({})).await;
    api.shell(&sandbox, "mkdir /workspace/sub").await;
    let made = contexts(
        &api,
        &sandbox,
        "POST",
        "/contexts",
        json!({"cwd": "/workspace/sub"}),
    )
    .await;
    assert_eq!(made.status, 200, "{}", made.text());
    let made = made.json();
    assert_eq!(
        (&made["language"], &made["cwd"]),
        (&json!("python"), &json!("/workspace/sub"))
    );
    let id = made["id"].as_str().unwrap();
    let listed = contexts(&api, &sandbox, "GET", "/contexts", Value::Null).await;
    assert_eq!(listed.json(), json!([made]));
    let cwd = json!({"code": "import os; y = 1; os.getcwd()", "context_id": id});
    for _ in 0..2 {
        let lines = execute(&api, &sandbox, cwd.clone()).await;
        assert_eq!(lines[0]["execution_count"], 1, "{lines:?}");
        assert_eq!(lines[1]["text"], "/workspace/sub");
        let restart = format!("/contexts/{id}/restart");
        let restarted = contexts(&api, &sandbox, "POST", &restart, Value::Null).await;
        assert_eq!(restarted.status, 200);
    }
    let lost = execute(&api, &sandbox, json!({"code": "y", "context_id": id})).await;
    assert_eq!(lost[1]["name"], "NameError");
    let path = format!("/contexts/{id}");
    let removed = contexts(&api, &sandbox, "DELETE", &path, Value::Null).await;
    assert_eq!(removed.status, 204);
    for (method, path, body) in [
        ("DELETE", path.as_str(), Value::Null),
        ("POST", "/contexts/nope/restart", Value::Null),
        ("POST", "/execute", json!({"code": "1", "context_id": id})),
        (
            "POST",
            "/execute",
            json!({"code": "1", "context_id": "../x"}),
        ),
    ] {
        let answer = contexts(&api, &sandbox, method, path, body).await;
        assert_eq!(answer.status, 404, "{method} {path}");
        assert!(answer.text().ends_with("not found"), "{}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_is_refused_in_plain_words() {
    let api = start().await;
    let sandbox = api.create(json!({})).await;
    for (path, body, words) in [
        (
            "/execute",
            json!({"code": "1", "context_id": "a", "language": "python"}),
            "Only one of",
        ),
        (
            "/execute",
            json!({"code": "1", "language": "cobol"}),
            "cobol",
        ),
        ("/execute", json!({"language": "python"}), "code"),
        ("/contexts", json!({"language": "cobol"}), "cobol"),
        ("/contexts", json!({"cwd": "/nowhere"}), "/nowhere"),
    ] {
        let answer = contexts(&api, &sandbox, "POST", path, body.clone()).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.text().contains(words), "{body}: {}", answer.text());
    }
    let listed = contexts(&api, &sandbox, "GET", "/contexts", Value::Null).await;
    assert_eq!(listed.json(), json!([]), "what did not begin is not kept");
    assert_eq!(
        contexts(&api, &sandbox, "GET", "/nothing", Value::Null)
            .await
            .status,
        404
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_needs_a_token_though_ports_are_public() {
    let api = start().await;
    let (sandbox, other) = (api.create(json!({})).await, api.create(json!({})).await);
    for (method, path) in [
        ("POST", "/execute"),
        ("GET", "/contexts"),
        ("POST", "/contexts"),
    ] {
        let send = async |headers: &[(&str, &str)]| {
            let mut all = vec![
                ("e2b-sandbox-id", sandbox.id.as_str()),
                ("e2b-sandbox-port", PORT),
            ];
            all.extend(headers);
            api.send(method, path, &all, r#"{"code":"1"}"#)
                .await
                .status
                .as_u16()
        };
        assert_eq!(send(&[]).await, 403, "{path}");
        assert_eq!(
            send(&[("x-access-token", &other.envd)]).await,
            403,
            "{path}"
        );
        assert_eq!(
            send(&[("e2b-traffic-access-token", &sandbox.envd)]).await,
            403,
            "{path}"
        );
        assert_eq!(
            send(&[("e2b-traffic-access-token", &sandbox.traffic)]).await,
            200,
            "{path}"
        );
        assert_eq!(
            send(&[("x-access-token", &sandbox.envd)]).await,
            200,
            "{path}"
        );
    }
}
