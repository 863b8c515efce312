//! The OpenAPI document against the service that it describes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    document::Document,
    support::{Client, Service},
};

const SECRET: &str = "a secret of at least thirty-two bytes";
const TENANT: &str = "acme";
/// Of each route, beside the edges of its schema; half a minute in all.
const EXAMPLES_PER_ROUTE: &str = "40";
const SEED: &str = "1";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
     response_headers_conformance,response_schema_conformance,negative_data_rejection,\
     unsupported_method,allow_header_conformance,ignored_auth";

fn tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/openapi")
}

/// The Python environment of the tools, made when it is not there.
fn venv() -> PathBuf {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi-venv");
    let made = Command::new(tools().join("venv.sh"))
        .arg(&venv)
        .status()
        .unwrap();
    assert!(made.success(), "tests/openapi/venv.sh failed");
    venv.join("bin")
}

fn admin() -> (Service, Client, String) {
    let service = Service::start_with(&[("SANDBOX_JWT_SECRET", SECRET)]);
    let output = Command::new(env!("CARGO_BIN_EXE_sandboxd"))
        .args(["token", "--admin", "--tenant", TENANT])
        .env("SANDBOX_JWT_SECRET", SECRET)
        .output()
        .unwrap();
    let token = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let client = service.client().with_token(&token);
    (service, client, token)
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn every_example_fits_its_schema() {
    let service = Service::start();
    let dir = TempDir::new().unwrap();
    let check = |document: &Value| {
        let file = dir.path().join("openapi.json");
        fs::write(&file, document.to_string()).unwrap();
        Command::new(venv().join("python"))
            .arg(tools().join("examples.py"))
            .arg(&file)
            .output()
            .unwrap()
    };
    let mut document = Document::of(&service).0;
    let good = check(&document);
    assert!(good.status.success(), "{}", text(&good));
    let count: u32 = text(&good).split(' ').next().unwrap().parse().unwrap();
    assert!(count >= 30, "{count}");

    // And a check that sees what does not.
    let content = "/paths/~1write/post/requestBody/content/application~1json/example/path";
    *document.pointer_mut(content).unwrap() = json!(1);
    let bad = check(&document);
    assert!(!bad.status.success());
    assert!(text(&bad).contains("/paths//write/post"), "{}", text(&bad));
}

#[test]
fn the_requests_that_the_document_shows_work() {
    let service = Service::start();
    let document = Document::of(&service).0;
    // In an order in which each finds what it needs.
    for route in [
        "/write",
        "/read",
        "/read_binary",
        "/edit",
        "/grep",
        "/glob",
        "/ls",
        "/move",
        "/delete",
        "/execute",
        "/bash",
    ] {
        let operation = &document["paths"][route]["post"];
        let request = &operation["requestBody"]["content"]["application/json"]["example"];
        assert!(request.is_object(), "{route} shows no request");
        let answer = service.post(route, request.clone());
        assert_eq!(answer.status, 200, "{route}: {}", answer.body);
        let shown = &operation["responses"]["200"]["content"]["application/json"]["example"];
        if shown.is_object() {
            assert_eq!(*shown, answer.body, "{route}");
        }
        if request["code"].is_string() || request["command"].is_string() {
            assert_eq!(answer.body["exit_code"], 0, "{route}: {}", answer.body);
        }
    }
}

/// Where `tests/openapi/hooks.py` finds files.
fn fill(client: &Client) {
    for session in ["demo", "s.1", "_"] {
        let answer = client.post(
            "/bash",
            json!({
                "session_id": session,
                "command": "mkdir d; echo hi > a.txt; head -c 300 /dev/urandom > d/b.bin; \
                            ln -s ../a.txt d/link; mkfifo fifo",
            }),
        );
        assert_eq!(answer.body["exit_code"], 0, "{}", answer.body);
    }
}

#[test]
fn schemathesis_finds_nothing_that_the_document_does_not_say() {
    let (service, client, token) = admin();
    fill(&client);
    let dir = TempDir::new().unwrap();
    let output = Command::new("timeout")
        .arg("240")
        .arg(venv().join("schemathesis"))
        .args(["run", &format!("{}/openapi.json", service.url)])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args(["--checks", CHECKS])
        .args(["--phases", "examples,coverage,fuzzing"])
        .args(["--max-examples", EXAMPLES_PER_ROUTE, "--seed", SEED])
        .args(["--request-timeout", "60", "--suppress-health-check", "all"])
        .args(["--continue-on-failure", "--no-color"])
        .current_dir(dir.path())
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", tools())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    // All but the document itself, which it has read before.
    let operations = Document::of(&service).operations().len() - 1;
    assert!(said.contains(&format!("Tested: {operations}\n")), "{said}");
    // It met the service behind the token, not only the refusal of callers without one.
    for route in ["/bash", "/execute", "/read", "/write", "/ls", "/grep"] {
        let answered = format!(
            "sandbox_http_requests_total{{method=\"POST\",route=\"{route}\",status=\"200\"}}"
        );
        assert!(service.metric(&answered) >= 5.0, "{route}: {said}");
    }
    let answer = client.post("/bash", json!({"session_id": "demo", "command": "echo 1"}));
    assert_eq!(answer.stdout(), "1\n");
}
