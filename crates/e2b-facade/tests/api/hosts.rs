//! Which sandbox a request is for.

use serde_json::json;

use crate::support::{Setup, start, start_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_the_domain_is_a_port_of_a_sandbox() {
    let api = start_with(Setup {
        domain: Some("sbx.example.com:8443"),
        ..Setup::default()
    })
    .await;
    let (one, other) = (api.create(json!({})).await, api.create(json!({})).await);
    let made = api
        .call("GET", &format!("/sandboxes/{}", one.id), json!(null))
        .await;
    assert_eq!(made.json()["domain"], "sbx.example.com:8443");
    let host = format!("49983-{}.sbx.example.com:8443", one.id);
    let envs = [("host", host.as_str()), ("x-access-token", &one.envd)];
    assert_eq!(api.send("GET", "/envs", &envs, "").await.status, 200);
    // Headers cannot say another one than the name, nor its token open it.
    let mixed = [
        ("host", host.as_str()),
        ("e2b-sandbox-id", &other.id),
        ("e2b-sandbox-port", "49983"),
        ("x-access-token", &other.envd),
    ];
    assert_eq!(api.send("GET", "/envs", &mixed, "").await.error().0, 401);
    let key = api.keys[0].as_str();
    let control = |host: &'static str| [("host", host), ("x-api-key", key)];
    for host in [
        "api.sbx.example.com:8443",
        "api.sbx.example.com",
        "localhost",
        "10.0.0.1:8081",
    ] {
        let listed = api.send("GET", "/v2/sandboxes", &control(host), "").await;
        assert_eq!(listed.status, 200, "{host}");
    }
    for host in [
        "evil.org",
        "www.sbx.example.com",
        "49983-x-y.sbx.example.com",
    ] {
        let refused = api.send("GET", "/v2/sandboxes", &control(host), "").await;
        assert_eq!(refused.error().0, 400, "{host}");
    }
    // The control plane is not to be had under a sandbox's name.
    let headers = [
        ("host", host.as_str()),
        ("x-api-key", key),
        ("x-access-token", &one.envd),
    ];
    assert_eq!(
        api.send("GET", "/v2/sandboxes", &headers, "")
            .await
            .error()
            .0,
        404
    );
}

#[tokio::test]
async fn a_sandbox_that_is_not_there_is_a_502_on_every_port() {
    let api = start().await;
    for port in ["49983", "49999", "3000"] {
        let headers = [("e2b-sandbox-id", "i0"), ("e2b-sandbox-port", port)];
        for path in ["/health", "/", "/execute"] {
            let answer = api.send("GET", path, &headers, "").await;
            assert_eq!(
                answer.json(),
                json!({"sandboxId": "i0", "message": "The sandbox was not found", "code": 502})
            );
            assert_eq!(answer.status, 502);
        }
    }
    for bad in [
        &[("e2b-sandbox-id", "i0")][..],
        &[("e2b-sandbox-id", "i-0"), ("e2b-sandbox-port", "1")],
        &[("e2b-sandbox-id", "i0"), ("e2b-sandbox-port", "65536")],
    ] {
        assert_eq!(api.send("GET", "/health", bad, "").await.error().0, 400);
    }
}
