//! Programs that listen in a sandbox.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Api, Sandbox, start};

/// Tells what it was asked.
const SERVER: &str = r#"
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        said = json.dumps({"path": self.path, "body": body.decode(),
                           "headers": {k.lower(): v for k, v in self.headers.items()}}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(said)))
        self.send_header("x-own", "kept")
        self.end_headers()
        self.wfile.write(said)
    do_GET = do_POST
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", 3000), Handler).serve_forever()
"#;

async fn serve(api: &Api, sandbox: &Sandbox) {
    let path = "/files?path=/workspace/server.py";
    let headers = [
        ("e2b-sandbox-id", sandbox.id.as_str()),
        ("e2b-sandbox-port", "49983"),
        ("x-access-token", &sandbox.envd),
        ("content-type", "application/octet-stream"),
    ];
    let written = api.send("POST", path, &headers, SERVER).await;
    assert_eq!(written.status, 200, "{}", written.text());
    api.shell(
        sandbox,
        "setsid python3 server.py >/dev/null 2>&1 </dev/null & disown",
    )
    .await;
    for _ in 0..200 {
        if api.to(sandbox, "3000", "GET", "/", "").await.status == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nothing listens");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_reaches_the_program_without_our_headers() {
    let api = start().await;
    let sandbox = api.create(json!({})).await;
    serve(&api, &sandbox).await;
    let headers = [
        ("host", "localhost:8081"),
        ("e2b-sandbox-id", sandbox.id.as_str()),
        ("e2b-sandbox-port", "3000"),
        ("e2b-traffic-access-token", &sandbox.traffic),
        ("x-access-token", &sandbox.envd),
        ("x-api-key", &api.keys[0]),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("x-own", "theirs"),
    ];
    let answer = api.send("POST", "/a%20b?c=d", &headers, "body").await;
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["x-own"]),
        (200, &"kept".parse().unwrap())
    );
    let said = answer.json();
    assert_eq!(
        (&said["path"], &said["body"]),
        (&json!("/a%20b?c=d"), &json!("body"))
    );
    assert_eq!(said["headers"]["host"], "localhost:8081");
    assert_eq!(said["headers"]["x-own"], "theirs");
    for ours in [
        "e2b-sandbox-id",
        "e2b-traffic-access-token",
        "x-access-token",
        "x-api-key",
        "x-hop",
    ] {
        assert_eq!(said["headers"][ours], Value::Null, "{ours}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_closed_is_said_to_be() {
    let api = start().await;
    let sandbox = api.create(json!({})).await;
    let answer = api.to(&sandbox, "3001", "GET", "/", "").await;
    assert_eq!(answer.status, 502);
    assert_eq!(
        answer.json(),
        json!({
            "sandboxId": sandbox.id, "port": 3001, "code": 502,
            "message": "The sandbox is running but port is not open",
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_that_are_not_public_need_the_token() {
    let api = start().await;
    let sandbox = api
        .create(json!({"network": {"allowPublicTraffic": false}}))
        .await;
    let send = async |headers: &[(&str, &str)]| {
        let mut all = vec![
            ("e2b-sandbox-id", sandbox.id.as_str()),
            ("e2b-sandbox-port", "3001"),
        ];
        all.extend(headers);
        api.send("GET", "/", &all, "").await.error()
    };
    let secured = "Sandbox is secured with traffic access token.";
    let (status, words) = send(&[]).await;
    let missing = format!("{secured} Token header 'e2b-traffic-access-token' is missing");
    assert_eq!((status, words), (403, missing));
    let (status, words) = send(&[("e2b-traffic-access-token", &sandbox.envd)]).await;
    let wrong = format!("{secured} Provided token in header 'e2b-traffic-access-token' is invalid");
    assert_eq!((status, words), (403, wrong));
    assert_eq!(
        send(&[("e2b-traffic-access-token", &sandbox.traffic)])
            .await
            .0,
        502
    );
    // envd has a token of its own.
    assert_eq!(api.shell(&sandbox, "true").await.len(), 3);
}
