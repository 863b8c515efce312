//! Our backend for E2B's sandboxes, with our own API of E2B as its server.

use std::{net::TcpListener, process::Command, sync::Arc};

use backend_e2b::{Door, E2bBackend, E2bConfig, Secret, Servers};
use sandbox_backend::Backend as _;
use sandbox_conformance::{cases, run, table};
use serde_json::json;

use crate::support::{Service, until};

const KEY: &str = "e2b_00112233445566778899aabbccddeeff00112233";

/// The service that has the sandboxes, and where its API of E2B is: the same after a
/// restart.
pub struct Server {
    pub service: Service,
    pub origin: String,
}

impl Server {
    pub fn start(settings: &[(&str, &str)]) -> Self {
        let address = {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().to_string()
        };
        let mut all = vec![("SANDBOX_E2B_LISTEN", address.as_str())];
        all.extend(settings);
        let is_tls = settings
            .iter()
            .any(|(key, _)| *key == "SANDBOX_E2B_TLS_CERT");
        let origin = match is_tls {
            true => format!("https://localhost:{}", address.rsplit(':').next().unwrap()),
            false => format!("http://{address}"),
        };
        Self {
            service: Service::start_with(&all),
            origin,
        }
    }

    /// A service whose sandboxes are those of this one.
    pub fn client(&self, settings: &[(&str, &str)]) -> Service {
        Self::client_at(&self.origin, settings)
    }

    /// Where the server is reached by another way.
    pub fn client_at(origin: &str, settings: &[(&str, &str)]) -> Service {
        let mut all = vec![
            ("SANDBOX_BACKEND", "e2b"),
            ("E2B_API_KEY", KEY),
            ("E2B_API_URL", origin),
            ("E2B_SANDBOX_URL", origin),
        ];
        all.extend(settings);
        Service::start_with(&all)
    }

    /// What an operator is told whose service cannot use this one.
    fn doctor(&self) -> String {
        let state = tempfile::tempdir().unwrap();
        let told = Command::new(env!("CARGO_BIN_EXE_sandboxd"))
            .arg("doctor")
            .env("SANDBOX_STATE_DIR", state.path())
            .env("SANDBOX_BACKEND", "e2b")
            .env("E2B_API_KEY", KEY)
            .env("E2B_API_URL", &self.origin)
            .env("E2B_SANDBOX_URL", &self.origin)
            .output()
            .unwrap();
        assert!(!told.status.success());
        let all = [told.stdout, told.stderr].concat();
        String::from_utf8(all).unwrap()
    }

    pub fn sandboxes(&self) -> usize {
        let sessions = self.service.get("/sessions").body;
        sessions["sessions"].as_array().unwrap().len()
    }
}

/// What envd alone does not give.
const NEED_THE_GUEST: [&str; 2] = [
    "an interpreter stays alive between runs, is interrupted, and ends with what it started",
    "what a sandbox uses is told",
];

/// Of a backend whose sandboxes are there.
pub fn config(origin: &str, door: Door) -> E2bConfig {
    let at = Some(origin);
    let servers = Servers::new("e2b.app", at, at).unwrap();
    E2bConfig {
        door,
        python_preload: Some(Vec::new()),
        ..E2bConfig::new(
            Secret::new(KEY),
            servers,
            "conformance",
            Secret::new("a secret"),
            guest_binary::GUEST.into(),
        )
    }
}

fn conforms_by(door: Door, but_for: &[&str]) {
    let server = Server::start(&[]);
    conforms(&server, config(&server.origin, door), but_for);
}

/// Every case that applies, in sandboxes of the real service; gives the backend that held.
pub fn conforms(server: &Server, config: E2bConfig, but_for: &[&str]) -> Arc<E2bBackend> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let backend = E2bBackend::new(config).unwrap();
    let report = runtime.block_on(run(Arc::clone(&backend) as _));
    println!("{}", table(std::slice::from_ref(&report)));
    let failures = report.failures();
    let unexpected: Vec<_> = failures
        .iter()
        .filter(|failure| !but_for.iter().any(|name| failure.starts_with(name)))
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    // What is excused must be seen to need it.
    assert_eq!(failures.len(), but_for.len(), "{failures:#?}");
    assert!(report.held() >= 38, "{report:?}");
    assert_eq!(report.outcomes.len(), cases().len());
    // Nothing of all that is left, here or there.
    assert_eq!(runtime.block_on(backend.list()).unwrap(), []);
    runtime.block_on(backend.close());
    assert_eq!(server.sandboxes(), 0);
    backend
}

#[test]
fn the_conformance_suite_passes_through_a_port() {
    conforms_by(Door::Port, &[]);
}

#[test]
fn the_conformance_suite_passes_through_a_command() {
    conforms_by(Door::Command, &[]);
}

#[test]
fn the_conformance_suite_passes_by_envd_alone_but_for_what_needs_a_guest() {
    conforms_by(Door::Envd, &NEED_THE_GUEST);
}

#[test]
fn a_service_runs_code_in_sandboxes_of_another() {
    let server = Server::start(&[]);
    let service = server.client(&[]);
    assert_eq!(service.python("print(6 * 7)").stdout(), "42\n");
    assert_eq!(
        service.bash("echo $HOME; pwd").stdout(),
        "/workspace\n/workspace\n"
    );
    let written = service.post(
        "/write",
        json!({"session_id": "s", "path": "a/b.txt", "content": "hello"}),
    );
    assert_eq!(written.status, 200, "{}", written.body);
    assert_eq!(service.bash("cat a/b.txt").stdout(), "hello");
    assert_eq!(server.sandboxes(), 1);
    let backends = service.get("/backends").body;
    let enforcement = &backends["backends"][0]["enforcement"];
    assert_eq!(enforcement["guest"], "port", "{backends}");
    assert_eq!(service.delete("/sessions/default/s").status, 204);
    assert_eq!(server.sandboxes(), 0);
}

#[test]
fn a_service_that_was_killed_finds_its_sandboxes_with_what_runs_in_them() {
    let server = Server::start(&[]);
    let mut service = server.client(&[]);
    let pid = service.bash("echo kept > f; sleep 600 >/dev/null 2>&1 & echo $!");
    let pid = pid.stdout().trim().to_owned();
    service.restart();
    let again = service.bash(&format!("cat f; kill -0 {pid} && echo lives"));
    assert_eq!(again.stdout(), "kept\nlives\n");
    assert_eq!(server.sandboxes(), 1);
}

#[test]
fn an_orderly_stop_pauses_and_the_next_start_resumes() {
    let server = Server::start(&[]);
    let mut service = server.client(&[]);
    service.bash("echo kept > f; sleep 600 >/dev/null 2>&1 &");
    service.terminate();
    assert!(service.wait().success());
    let sessions = server.service.get("/sessions").body;
    assert_eq!(sessions["sessions"][0]["state"], "paused", "{sessions}");
    service.restart();
    assert_eq!(service.bash("cat f; pgrep sleep").body["stdout"], "kept\n");
    assert_eq!(server.sandboxes(), 1);
}

#[test]
fn a_server_that_was_killed_costs_a_sandbox_its_processes_alone() {
    let mut server = Server::start(&[]);
    let service = server.client(&[]);
    assert_eq!(service.bash("echo kept > f").status, 200);
    server.service.restart();
    until("the session has a sandbox again", || {
        service.bash("cat f").body["stdout"] == "kept\n"
    });
    assert_eq!(server.sandboxes(), 1);
}

#[test]
fn a_server_that_is_away_is_told_as_such() {
    let mut server = Server::start(&[]);
    let service = server.client(&[]);
    server.service.kill();
    let refused = service.bash("true");
    assert_eq!(
        (refused.status, refused.code()),
        (503, "backend_unavailable")
    );
    assert!(!refused.header("retry-after").is_empty());
    let ready = service.get("/readyz");
    assert_eq!(ready.status, 503);
    assert!(!ready.body.to_string().contains(KEY));
}

#[test]
fn a_service_starts_when_its_server_answers_and_says_so_before() {
    let mut server = Server::start(&[]);
    let mut service = server.client(&[]);
    assert_eq!(service.bash("echo kept > f").status, 200);
    service.kill();
    server.service.kill();

    let away = service.start_that_fails();
    for said in [
        "the E2B server cannot be reached",
        "E2B_API_URL or E2B_DOMAIN",
        server.origin.as_str(),
        "Connection refused",
    ] {
        assert!(away.contains(said), "{said}: {away}");
    }
    assert!(!away.contains(KEY), "{away}");

    server.service.restart();
    service.restart();
    assert_eq!(service.bash("cat f").stdout(), "kept\n");
    assert_eq!(server.sandboxes(), 1);
}

#[test]
fn a_server_is_spoken_to_over_tls_and_by_whom_one_trusts() {
    let folder = tempfile::tempdir().unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| {
        let path = folder.path().join(name);
        path.to_str().unwrap().to_owned()
    });
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args([
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-keyout",
            &key,
            "-out",
            &cert,
        ])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let server = Server::start(&[
        ("SANDBOX_E2B_TLS_CERT", &cert),
        ("SANDBOX_E2B_TLS_KEY", &key),
    ]);
    assert!(server.origin.starts_with("https://"));
    let service = server.client(&[("SSL_CERT_FILE", &cert)]);
    // Through a WebSocket over TLS.
    assert_eq!(service.bash("echo over").stdout(), "over\n");
    let enforcement = service.get("/backends").body["backends"][0]["enforcement"].clone();
    assert_eq!(enforcement["guest"], "port");
    let told = server.doctor();
    assert!(told.contains("the E2B server cannot be reached"), "{told}");
}

#[test]
fn a_key_that_the_server_does_not_know_is_told_as_such() {
    let server = Server::start(&[("SANDBOX_API_KEYS", "true")]);
    let told = server.doctor();
    let refused = "the E2B server refuses the key in E2B_API_KEY";
    assert!(told.contains(refused) && !told.contains(KEY), "{told}");
}
