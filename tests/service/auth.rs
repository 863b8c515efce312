//! Who may call what, with tokens that the binary itself minted.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{SECRET, Service, token, until};

#[test]
fn a_token_opens_its_tenant_and_nothing_else() {
    let service = Service::start_with(&[("SANDBOX_JWT_SECRET", SECRET)]);
    let body = json!({"session_id": "s", "command": "echo hi"});
    let nobody = service.post("/bash", body.clone());
    assert_eq!((nobody.status, nobody.code()), (401, "unauthorized"));
    let acme = service.client().with_token(&token(&["--tenant", "acme"]));
    assert_eq!(acme.post("/bash", body.clone()).stdout(), "hi\n");
    let foreign = acme.post(
        "/bash",
        json!({"tenant_id": "other", "session_id": "s", "command": "true"}),
    );
    assert_eq!((foreign.status, foreign.code()), (403, "forbidden_tenant"));
    let other = service.client().with_token(&token(&["--tenant", "other"]));
    let seen = other.send("GET", "/sessions/acme/s", &[], None);
    assert_eq!((seen.status, seen.code()), (403, "forbidden_tenant"));
    assert_eq!(
        other.send("DELETE", "/sessions/acme/s", &[], None).status,
        403
    );
    let admin = service.client().with_token(&token(&["--admin"]));
    let all = admin.send("GET", "/sessions", &[], None);
    assert_eq!(all.body["sessions"][0]["tenant_id"], "acme", "{}", all.body);
    assert_eq!(
        admin.send("DELETE", "/sessions/acme/s", &[], None).status,
        204
    );
    assert_eq!(service.get("/healthz").status, 200);
}

#[test]
fn tokens_that_are_not_ours_are_refused() {
    let service = Service::start_with(&[
        ("SANDBOX_JWT_SECRET", SECRET),
        ("SANDBOX_JWT_AUDIENCE", "sandbox"),
    ]);
    let body = json!({"session_id": "s", "command": "true"});
    let good = token(&["--tenant", "acme"]);
    let cut = &good[..good.len() - 2];
    // {"alg":"none"} and an admin's claims.
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJ4IiwiZXhwIjo5OTk5OTk5OTk5LCJ0ZW5hbnRfaWQiOiJhY21lIiwicm9sZSI6ImFkbWluIn0.";
    for bad in [good.as_str(), cut, none, "x", "", "a.b.c"] {
        let answer = service.client().with_token(bad).post("/bash", body.clone());
        assert_eq!(
            (answer.status, answer.code()),
            (401, "unauthorized"),
            "{}",
            answer.body
        );
        assert!(!answer.header("www-authenticate").is_empty());
        assert!(bad.len() < 2 || !answer.body.to_string().contains(bad));
    }
}

#[test]
fn without_auth_only_loopback_is_served() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_sandboxd"))
        .args(["serve", "--listen", "0.0.0.0:0"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("jwt_secret"), "{said}");
}

/// Runs `sandboxd` on the state of a service; gives what it printed.
fn sandboxd(state: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sandboxd"))
        .args(arguments)
        .env("SANDBOX_STATE_DIR", state)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn openssl(arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Files of a private key and its public one.
fn key_pair(dir: &TempDir, options: &[&str]) -> (String, String) {
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (private, public) = (path("private.pem"), path("public.pem"));
    openssl(&[&["genpkey", "-out", &private], options].concat());
    openssl(&["pkey", "-in", &private, "-pubout", "-out", &public]);
    (private, public)
}

fn run() -> serde_json::Value {
    json!({"session_id": "s", "command": "echo hi"})
}

#[test]
fn an_api_key_is_made_used_and_revoked_while_the_service_runs() {
    let service = Service::start_with(&[("SANDBOX_API_KEYS", "true")]);
    let state = service.state();
    let make = |more: &[&str]| sandboxd(&state, &[&["keys", "create"], more].concat());
    let key = make(&["--tenant", "acme", "--name", "build server"]);
    let admin = make(&["--tenant", "ops", "--admin"]);
    let id = key[4..20].to_owned();
    let post = |key: &str, body| {
        let headers = [("content-type", "application/json"), ("x-api-key", key)];
        let body: serde_json::Value = body;
        service
            .client()
            .send("POST", "/bash", &headers, Some(body.to_string().as_bytes()))
    };
    assert_eq!(post(&key, run()).stdout(), "hi\n");
    let by_bearer = service.client().with_token(&key).post("/bash", run());
    assert_eq!(by_bearer.stdout(), "hi\n");
    assert_eq!(service.post("/bash", run()).status, 401);
    let foreign = json!({"tenant_id": "other", "command": "true"});
    assert_eq!(post(&key, foreign).code(), "forbidden_tenant");
    let see = |key: &str| {
        let path = "/sessions/acme/s";
        let headers = [("x-api-key", key)];
        service.client().send("GET", path, &headers, None).status
    };
    assert_eq!(see(&admin), 200);

    let list = sandboxd(&state, &["keys", "list"]);
    assert!(
        list.contains("build server") && list.contains(&id),
        "{list}"
    );
    let of_ops = sandboxd(&state, &["keys", "list", "--tenant", "ops"]);
    assert!(
        of_ops.contains("admin") && !of_ops.contains("acme"),
        "{of_ops}"
    );
    // Neither the list nor the database's files know a secret.
    let secret = &key[21..];
    assert!(!list.contains(secret));
    for entry in fs::read_dir(&state).unwrap().flatten() {
        let bytes = fs::read(entry.path()).unwrap_or_default();
        let found = bytes
            .windows(secret.len())
            .any(|it| it == secret.as_bytes());
        assert!(!found, "{:?}", entry.path());
    }

    sandboxd(&state, &["keys", "revoke", &id]);
    until("the key is refused", || see(&key) == 401);
    assert_eq!(see(&admin), 200);
    let again = Command::new(env!("CARGO_BIN_EXE_sandboxd"))
        .args(["keys", "revoke", &key])
        .env("SANDBOX_STATE_DIR", &state)
        .output()
        .unwrap();
    assert!(!again.status.success());
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(!said.contains(secret), "{said}");
    assert!(sandboxd(&state, &["keys", "list"]).contains("revoked 20"));
}

#[test]
fn a_key_that_cannot_be_is_not_made() {
    let state = tempfile::tempdir().unwrap();
    for arguments in [
        ["--tenant", "../x", "--name", "n"],
        ["--tenant", "*", "--name", "n"],
        ["--tenant", "acme", "--name", "a\nb"],
        ["--tenant", "acme", "--name", "\u{1b}[2J"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_sandboxd"))
            .args(["keys", "create"])
            .args(arguments)
            .env("SANDBOX_STATE_DIR", state.path())
            .output()
            .unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
    let list = sandboxd(state.path(), &["keys", "list"]);
    assert_eq!(list.lines().count(), 1, "{list}");
}

#[test]
fn a_public_key_checks_what_its_private_one_signs() {
    for options in [
        ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"].as_slice(),
        &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
        &["-algorithm", "ED25519"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (private, public) = key_pair(&dir, options);
        let service = Service::start_with(&[("SANDBOX_JWT_PUBLIC_KEY", &public)]);
        let token = sandboxd(
            dir.path(),
            &["token", "--tenant", "acme", "--key", &private],
        );
        let acme = service.client().with_token(&token);
        assert_eq!(acme.post("/bash", run()).stdout(), "hi\n", "{options:?}");
        let other = tempfile::tempdir().unwrap();
        let (private, _) = key_pair(&other, options);
        let forged = sandboxd(
            dir.path(),
            &["token", "--tenant", "acme", "--key", &private],
        );
        let refused = service.client().with_token(&forged).post("/bash", run());
        assert_eq!((refused.status, refused.code()), (401, "unauthorized"));
    }
}

/// A server of files over TLS.
struct TlsServer {
    process: Child,
    port: u16,
}

impl TlsServer {
    /// Serves `dir` as `localhost`, by the certificate and key that are in it.
    fn start(dir: &Path) -> Self {
        let mut process = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-WWW"])
            .args(["-cert", "server.pem", "-key", "server.key"])
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = process.stdout.take().unwrap();
        let port = BufReader::new(stdout)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("ACCEPT 127.0.0.1:")?.parse().ok())
            .unwrap();
        Self { process, port }
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn keys_are_fetched_over_tls_from_who_can_prove_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (private, _) = key_pair(&dir, &["-algorithm", "ED25519"]);
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (ca, ca_key) = (path("ca.pem"), path("ca.key"));
    let (request, extensions) = (path("server.csr"), path("extensions"));
    let new_key = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ];
    let own = [
        "req", "-x509", "-subj", "/CN=ca", "-keyout", &ca_key, "-out", &ca,
    ];
    openssl(&[own.as_slice(), &new_key].concat());
    let key = path("server.key");
    let asked = [
        "req",
        "-subj",
        "/CN=server",
        "-keyout",
        &key,
        "-out",
        &request,
    ];
    openssl(&[asked.as_slice(), &new_key].concat());
    fs::write(&extensions, "subjectAltName=DNS:localhost\n").unwrap();
    let signed = path("server.pem");
    openssl(&[
        "x509",
        "-req",
        "-in",
        &request,
        "-CA",
        &ca,
        "-CAkey",
        &ca_key,
        "-CAcreateserial",
        "-extfile",
        &extensions,
        "-out",
        &signed,
    ]);
    // The last 32 bytes of the DER of an Ed25519 key are the key.
    let der = path("public.der");
    openssl(&[
        "pkey", "-in", &private, "-pubout", "-outform", "DER", "-out", &der,
    ]);
    let der = fs::read(der).unwrap();
    let x = URL_SAFE_NO_PAD.encode(&der[der.len() - 32..]);
    let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "k1"}]});
    fs::write(path("jwks.json"), set.to_string()).unwrap();
    let server = TlsServer::start(dir.path());
    let token = sandboxd(
        dir.path(),
        &[
            "token", "--tenant", "acme", "--key", &private, "--kid", "k1",
        ],
    );
    let ask = |host: &str, trusted: &str| {
        let url = format!("https://{host}:{}/jwks.json", server.port);
        let service =
            Service::start_with(&[("SANDBOX_JWKS_URL", &url), ("SSL_CERT_FILE", trusted)]);
        service.client().with_token(&token).post("/bash", run())
    };
    assert_eq!(ask("localhost", &ca).stdout(), "hi\n");
    let other_name = ask("127.0.0.1", &ca);
    assert_eq!(
        (other_name.status, other_name.code()),
        (503, "keys_unavailable")
    );
    assert!(!other_name.header("retry-after").is_empty());
    // Somebody else's authority.
    let (stranger, stranger_key) = (path("stranger.pem"), path("stranger.key"));
    let own = [
        "req",
        "-x509",
        "-subj",
        "/CN=ca",
        "-keyout",
        &stranger_key,
        "-out",
        &stranger,
    ];
    openssl(&[own.as_slice(), &new_key].concat());
    assert_eq!(ask("localhost", &stranger).code(), "keys_unavailable");
}
