//! E2B's official SDKs, unmodified, against the real service: they are told where it is and
//! nothing else. The cases are in `python`, `javascript` and `domain`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod domain;
mod renewal;
mod server;
mod suites;

use std::collections::HashMap;

use server::{Key, Server};
use suites::{javascript, python};

/// What the SDKs see of a service.
fn surroundings(server: &Server, backend: &str) -> HashMap<String, String> {
    [
        ("E2B_API_URL", server.e2b.clone()),
        ("E2B_SANDBOX_URL", server.e2b.clone()),
        ("E2B_API_KEY", server.key("acme", Key::E2b)),
        ("E2B_TEST_OTHER_KEY", server.key("other", Key::E2b)),
        ("E2B_TEST_BACKEND", backend.to_owned()),
        ("E2B_TEST_OWN_URL", server.url.clone()),
        ("E2B_TEST_OWN_KEY", server.key("acme", Key::Own)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// A service that is soon full, and the keys of tenants that come to feel it.
fn limited(around: &mut HashMap<String, String>, settings: &[(&str, &str)]) -> Server {
    let mut all = vec![
        ("SANDBOX_REQUESTS_PER_SECOND", "1"),
        ("SANDBOX_REQUEST_BURST", "12"),
        ("SANDBOX_TENANT_MAX_SESSIONS", "2"),
    ];
    all.extend_from_slice(settings);
    let server = Server::start(&all);
    around.insert("E2B_TEST_LIMITED_URL".into(), server.e2b.clone());
    for (name, tenant) in [
        ("E2B_TEST_LIMITED_KEY", "hasty"),
        ("E2B_TEST_LIMITED_JS_KEY", "hasty-too"),
        ("E2B_TEST_CROWDED_KEY", "crowded"),
    ] {
        around.insert(name.into(), server.key(tenant, Key::E2b));
    }
    server
}

fn small(around: &mut HashMap<String, String>) -> Server {
    let server = Server::start(&[("SANDBOX_DISK_LIMIT", "8m")]);
    around.insert("E2B_TEST_SMALL_DISK_URL".into(), server.e2b.clone());
    around.insert(
        "E2B_TEST_SMALL_DISK_KEY".into(),
        server.key("small", Key::E2b),
    );
    server
}

/// Room for the suites' sandboxes, and names for them.
const ROOM: [(&str, &str); 4] = [
    ("SANDBOX_MAX_SESSIONS", "200"),
    ("SANDBOX_TENANT_MAX_SESSIONS", "200"),
    ("SANDBOX_TENANT_RUNS", "64"),
    ("SANDBOX_E2B_PUBLIC_DOMAIN", "sandboxes.test"),
];

fn docker(host: &str) -> Vec<(&str, &str)> {
    let mut settings = vec![
        ("SANDBOX_BACKEND", "docker"),
        ("SANDBOX_DOCKER_HOST", host),
        ("SANDBOX_DOCKER_PULL", "never"),
        ("SANDBOX_WORKER_IMAGE", test_docker::IMAGE),
    ];
    settings.extend_from_slice(&ROOM);
    settings
}

#[test]
fn python_drives_local_sandboxes() {
    let server = Server::start(&ROOM);
    let mut around = surroundings(&server, "local");
    let _limited = limited(&mut around, &[]);
    let _small = small(&mut around);
    python("python", &around, &[]).all_of(279);
}

#[test]
fn javascript_drives_local_sandboxes() {
    let server = Server::start(&ROOM);
    let mut around = surroundings(&server, "local");
    let _limited = limited(&mut around, &[]);
    javascript("javascript", &around).all_of(47);
}

#[test]
fn python_drives_docker_sandboxes() {
    let Some(host) = test_docker::host() else {
        return;
    };
    let settings = docker(host);
    let server = Server::start(&settings);
    let around = surroundings(&server, "docker");
    python("python", &around, &["-m", "not local"]).at_least(264);
}

#[test]
fn javascript_drives_docker_sandboxes() {
    let Some(host) = test_docker::host() else {
        return;
    };
    let settings = docker(host);
    let server = Server::start(&settings);
    let around = surroundings(&server, "docker");
    javascript("javascript", &around).at_least(44);
}
