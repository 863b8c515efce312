//! Who may call what, with tokens that the binary itself minted.

use serde_json::json;

use crate::support::Service;
use crate::support::{SECRET, token};

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
