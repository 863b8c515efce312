//! What the log says of a request, and what it must never say.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock},
};

use jsonwebtoken::{EncodingKey, Header, encode};
use sandbox_auth::{Auth, TokenRules, Tokens, VerifyingKey};
use sandbox_backend::Problem;
use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;

use crate::{
    auth::api_keys,
    support::{FakeBackend, Setup, start_with},
};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// One log for all tests: what a thread-local one sees depends on which thread
/// came first to each line.
fn lines() -> Lines {
    static LINES: OnceLock<Lines> = OnceLock::new();
    let start = || {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_max_level(tracing::Level::DEBUG)
            .with_writer(lines.clone())
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        lines
    };
    LINES.get_or_init(start).clone()
}

impl Lines {
    fn about(&self, request: &str) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|line| line["span"]["request.id"] == request)
            .collect()
    }
}

#[tokio::test]
async fn a_line_names_request_tenant_and_session_and_no_content() {
    let lines = lines();
    let service = start_with(Setup::default()).await;
    let secret = "s3cret";
    let body = json!({
        "code": secret, "stdin": secret, "args": [secret], "env": {"A": secret},
        "tenant_id": "acme", "session_id": "s1",
    });
    let headers = [("x-request-id", "r1"), ("authorization", "Bearer s3cret")];
    let answer = service.post_with("/execute", &headers, body).await;
    assert!(answer.text().contains(secret));
    // Its type is wrong, so the refusal quotes it; the log must not.
    let headers = [("x-request-id", "r2")];
    let refused = service
        .post_with("/execute", &headers, json!({"code": "1", "env": secret}))
        .await;
    assert!(refused.text().contains(secret));

    let done = lines.about("r1");
    let last = done.last().unwrap();
    assert_eq!(last["fields"]["message"], "POST /execute -> 200");
    assert_eq!(last["fields"]["http.status"], "200");
    assert!(last["fields"]["duration_ms"].as_f64().unwrap() > 0.0);
    let span = &last["span"];
    assert_eq!(
        (&span["session.tenant"], &span["session.id"]),
        (&json!("acme"), &json!("s1"))
    );
    let refusal = lines.about("r2");
    assert_eq!(refusal[0]["fields"]["error.code"], "invalid_request");
    let all = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(!all.contains(secret), "{all}");
}

#[tokio::test]
async fn a_line_names_the_callers_trace_and_the_answer_too() {
    let lines = lines();
    let service = start_with(Setup::default()).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let good = format!("00-{trace}-00f067aa0ba902b7-01");
    let headers = [("x-request-id", "r4"), ("traceparent", good.as_str())];
    let answer = service
        .send("GET", "/healthz", &headers, axum::body::Body::empty())
        .await;
    let response = answer.header("traceresponse").to_owned();
    assert!(response.starts_with(&format!("00-{trace}-")) && response.ends_with("-01"));
    assert_ne!(response, good, "the span is the service's own");
    let span = &lines.about("r4")[0]["span"];
    assert_eq!(span["trace.id"], trace);
    assert_eq!(span["otel.kind"], Value::Null);

    // What is no trace could be anything, so it is not in the log either.
    let headers = [("x-request-id", "r5"), ("traceparent", "00-evil-evil-01")];
    let answer = service
        .send("GET", "/healthz", &headers, axum::body::Body::empty())
        .await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("traceresponse")),
        (200, "")
    );
    let about = lines.about("r5");
    assert_eq!(about[0]["span"]["trace.id"], Value::Null);
    assert!(!Value::from(about).to_string().contains("evil"));
}

#[tokio::test]
async fn no_token_and_no_key_is_in_the_log() {
    let lines = lines();
    let (keys, shown) = api_keys().await;
    let secret = "a secret of at least thirty-two bytes";
    let tokens = Tokens::signed_by(
        VerifyingKey::from_secret(secret).unwrap(),
        TokenRules::default(),
    );
    let service = start_with(Setup {
        auth: Auth::on(Some(tokens), Some(keys)),
        ..Setup::default()
    })
    .await;
    let signed = |claims: Value| {
        let key = EncodingKey::from_secret(secret.as_bytes());
        encode(&Header::default(), &claims, &key).unwrap()
    };
    let claims = json!({"sub": "auth0|u1", "exp": 9_000_000_000_u64, "tenant_id": "acme"});
    let good = signed(claims.clone());
    let mut expired = claims;
    expired["exp"] = json!(1);
    let forged = format!("{}AAAA", &good[..good.len() - 4]);
    let wrong_key = format!("{}AAAA", &shown[0][..shown[0].len() - 4]);
    let headers: Vec<(&str, String)> = vec![
        ("authorization", format!("Bearer {good}")),
        ("authorization", format!("Bearer {}", signed(expired))),
        ("authorization", format!("Bearer {forged}")),
        ("authorization", format!("Bearer {}", shown[0])),
        ("authorization", "Bearer not-even-a-token".to_owned()),
        ("authorization", "Basic not-even-a-token".to_owned()),
        ("x-api-key", shown[0].clone()),
        ("x-api-key", shown[1].clone()),
        ("x-api-key", shown[2].clone()),
        ("x-api-key", wrong_key),
        ("x-api-key", "sbx_not-even-a-token".to_owned()),
    ];
    for (at, (name, value)) in headers.iter().enumerate() {
        let id = format!("secret-{at}");
        let headers = [("x-request-id", id.as_str()), (name, value)];
        let answer = service
            .post_with("/bash", &headers, json!({"command": "true"}))
            .await;
        assert!(!lines.about(&id).is_empty());
        // Nor in the answer.
        let part = &value[value.len() - 12..];
        assert!(!answer.text().contains(part), "{}", answer.text());
    }
    let all = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    for (_, value) in &headers {
        let part = &value[value.len() - 12..];
        assert!(!all.contains(part), "{part} is in the log: {all}");
    }
    // Who called is there: the token's subject, the key's id.
    let caller = |id: &str| lines.about(id).last().unwrap()["span"]["caller.subject"].clone();
    assert_eq!(caller("secret-0"), "auth0|u1");
    assert_eq!(caller("secret-6"), format!("key:{}", &shown[0][4..20]));
}

#[tokio::test]
async fn a_fault_of_ours_is_logged_once_as_an_error() {
    let lines = lines();
    let backend = FakeBackend {
        problem: Some(Problem::new("the disk is on fire", "water")),
        ..FakeBackend::default()
    };
    let service = start_with(Setup {
        backend,
        ..Setup::default()
    })
    .await;
    let headers = [("x-request-id", "r3")];
    service
        .post_with("/bash", &headers, json!({"command": "true"}))
        .await;
    let errors: Vec<Value> = lines
        .about("r3")
        .into_iter()
        .filter(|line| line["level"] == "ERROR")
        .collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let fields = &errors[0]["fields"];
    assert_eq!(fields["error.code"], "backend_unavailable");
    assert_eq!(
        fields["message"],
        "request failed: no sandbox can be made now"
    );
}
