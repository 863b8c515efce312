//! Whose token opens what.

use std::sync::Arc;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use sandbox_auth::{ApiKey, ApiKeys, Auth, TokenRules, Tokens, VerifyingKey};
use sandbox_core::Timestamp;
use sandbox_http::HttpSettings;
use sandbox_store::{KeyRecord, KeyStore as _, SqliteStore};
use serde_json::{Value, json};

use crate::support::{Answer, Service, Setup, settings, start, start_with};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
/// Far away on either side of now, in seconds since 1970.
const PAST: u64 = 1_000_000_000;
const FUTURE: u64 = 9_000_000_000;

fn tokens(audience: Option<&str>, issuer: Option<&str>) -> Tokens {
    let rules = TokenRules {
        audience: audience.map(str::to_owned),
        issuer: issuer.map(str::to_owned),
        leeway_seconds: 30,
    };
    Tokens::signed_by(VerifyingKey::from_secret(SECRET).unwrap(), rules)
}

async fn guarded(audience: Option<&str>, issuer: Option<&str>) -> Service {
    guarded_by(Auth::on(Some(tokens(audience, issuer)), None)).await
}

async fn guarded_by(auth: Auth) -> Service {
    start_with(Setup {
        auth,
        ..Setup::default()
    })
    .await
}

/// Keys of tenant `acme`: one of a tenant, one of an admin, one that was revoked.
pub async fn api_keys() -> (ApiKeys, [String; 3]) {
    let store = SqliteStore::in_memory().await.unwrap();
    let mut shown = Vec::new();
    for (admin, revoked_at) in [(false, None), (true, None), (false, Some(Timestamp(2)))] {
        let key = ApiKey::generate().unwrap();
        let record = KeyRecord {
            id: key.id().to_owned(),
            tenant: "acme".parse().unwrap(),
            admin,
            name: "ci".to_owned(),
            secret_sha256: key.secret_sha256(),
            created_at: Timestamp(1),
            revoked_at,
        };
        store.add_key(&record).await.unwrap();
        shown.push(key.reveal());
    }
    (ApiKeys::new(Arc::new(store)), shown.try_into().unwrap())
}

fn token(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    encode(&Header::default(), claims, &key).unwrap()
}

fn claims(more: Value) -> Value {
    let mut claims = json!({"sub": "u", "exp": FUTURE, "tenant_id": "acme"});
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

async fn ask(service: &Service, method: &str, path: &str, token: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    service
        .send(method, path, &[("authorization", &bearer)], "")
        .await
}

async fn bash(service: &Service, token: &str, mut body: Value) -> Answer {
    body["command"] = json!("true");
    let bearer = format!("Bearer {token}");
    service
        .post_with("/bash", &[("authorization", &bearer)], body)
        .await
}

#[tokio::test]
async fn a_request_without_a_good_token_is_refused_and_says_how_to_ask() {
    let service = guarded(None, None).await;
    let other_key = EncodingKey::from_secret(b"another secret of thirty-two byte");
    let hs384 = Header::new(Algorithm::HS384);
    let ours = EncodingKey::from_secret(SECRET.as_bytes());
    // {"alg":"none"}, with the claims of a good token.
    let good = token(&claims(json!({})));
    let payload = good.split('.').nth(1).unwrap();
    let unsigned = format!("eyJhbGciOiJub25lIn0.{payload}.");
    for (what, token, detail) in [
        (
            "expired",
            token(&claims(json!({"exp": PAST}))),
            "the token has expired",
        ),
        (
            "not yet",
            token(&claims(json!({"nbf": FUTURE}))),
            "the token is not valid yet",
        ),
        (
            "forged",
            encode(&Header::default(), &claims(json!({})), &other_key).unwrap(),
            "the token's signature is wrong",
        ),
        ("unsigned", unsigned, "the token is not valid"),
        (
            "other algorithm",
            encode(&hs384, &claims(json!({})), &ours).unwrap(),
            "the token's algorithm is not the one in use",
        ),
        (
            "no exp",
            token(&claims(json!({"exp": null}))),
            "the token has no valid `exp`",
        ),
        (
            "no sub",
            token(&claims(json!({"sub": null}))),
            "the token has no valid `sub`",
        ),
        (
            "no tenant",
            token(&claims(json!({"tenant_id": null}))),
            "the token has no `tenant_id`",
        ),
        (
            "bad tenant",
            token(&claims(json!({"tenant_id": "../x"}))),
            "the token's tenant is not a valid tenant_id",
        ),
        (
            "star",
            token(&claims(json!({"tenants": ["*"]}))),
            "only an admin's token is for tenant `*`",
        ),
        ("garbage", "a.b.c".into(), "the token is not valid"),
        ("nothing", String::new(), "a bearer token is needed"),
    ] {
        let answer = bash(&service, &token, json!({})).await;
        assert_eq!(answer.problem(), (401, "unauthorized".into()), "{what}");
        assert_eq!(answer.detail(), detail, "{what}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    for scheme in ["", "Basic dTpw", &good] {
        let headers = [("authorization", scheme)];
        let answer = service
            .post_with("/bash", &headers, json!({"command": "true"}))
            .await;
        assert_eq!(answer.detail(), "a bearer token is needed");
    }
    assert!(service.sessions.list().is_empty());
    assert_eq!(bash(&service, &good, json!({})).await.status, 200);
}

#[tokio::test]
async fn a_body_is_not_read_for_a_stranger() {
    let service = guarded(None, None).await;
    let answer = service
        .send("POST", "/bash", &[("content-type", "text/plain")], "{")
        .await;
    assert_eq!(answer.status, 401);
}

#[tokio::test]
async fn audience_and_issuer_are_checked_where_they_are_set() {
    let service = guarded(Some("us"), Some("them")).await;
    let good = json!({"aud": ["us", "x"], "iss": "them"});
    assert_eq!(
        bash(&service, &token(&claims(good)), json!({}))
            .await
            .status,
        200
    );
    for (bad, detail) in [
        (
            json!({"aud": "x", "iss": "them"}),
            "the token is for another audience",
        ),
        (json!({"iss": "them"}), "the token has no valid `aud`"),
        (
            json!({"aud": "us", "iss": "x"}),
            "the token is of another issuer",
        ),
        (json!({"aud": "us"}), "the token has no valid `iss`"),
    ] {
        let answer = bash(&service, &token(&claims(bad)), json!({})).await;
        assert_eq!(
            (answer.status.as_u16(), answer.detail().as_str()),
            (401, detail)
        );
    }
    let unchecked = guarded(None, None).await;
    let any = token(&claims(json!({"aud": "x", "iss": "y"})));
    assert_eq!(bash(&unchecked, &any, json!({})).await.status, 200);
}

#[tokio::test]
async fn a_token_serves_its_tenants_only() {
    let service = guarded(None, None).await;
    let acme = token(&claims(json!({})));
    assert_eq!(
        bash(
            &service,
            &acme,
            json!({"tenant_id": "acme", "session_id": "s"})
        )
        .await
        .status,
        200
    );
    let foreign = bash(
        &service,
        &acme,
        json!({"tenant_id": "other", "session_id": "s"}),
    )
    .await;
    assert_eq!(foreign.problem(), (403, "forbidden_tenant".into()));
    assert!(
        !foreign.text().contains("acme"),
        "another tenant is named: {}",
        foreign.text()
    );
    let two = token(&claims(json!({"tenants": ["b", "c"]})));
    assert_eq!(
        bash(&service, &two, json!({"tenant_id": "c"})).await.status,
        200
    );
    let which = bash(&service, &two, json!({})).await;
    assert_eq!(which.problem(), (400, "invalid_request".into()));
    assert!(which.detail().contains("`tenant_id`"));
    // To manage every tenant is not to run as every tenant.
    let admin = token(&claims(json!({"role": "admin"})));
    assert_eq!(
        bash(&service, &admin, json!({"tenant_id": "b"}))
            .await
            .status,
        403
    );
    let star = token(&json!({"sub": "u", "exp": FUTURE, "tenants": ["*"], "role": "admin"}));
    assert_eq!(
        bash(&service, &star, json!({"tenant_id": "b"}))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn sessions_are_their_tenants_and_the_admins() {
    let service = guarded(None, None).await;
    let acme = token(&claims(json!({})));
    let other = token(&claims(json!({"tenant_id": "other"})));
    let admin = token(&claims(
        json!({"tenant_id": "ops", "scope": "read sandbox:admin"}),
    ));
    bash(&service, &acme, json!({"session_id": "s"})).await;
    bash(&service, &other, json!({"session_id": "s"})).await;
    let names = |answer: Answer| -> Vec<String> {
        let json = answer.json();
        let sessions = json["sessions"].as_array().unwrap().iter();
        sessions
            .map(|session| session["tenant_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(ask(&service, "GET", "/sessions", &acme).await),
        ["acme"]
    );
    assert_eq!(
        names(ask(&service, "GET", "/sessions", &admin).await),
        ["acme", "other"]
    );
    assert_eq!(
        names(ask(&service, "GET", "/sessions?tenant_id=other", &admin).await),
        ["other"]
    );
    let foreign = ask(&service, "GET", "/sessions?tenant_id=other", &acme).await;
    assert_eq!(foreign.problem(), (403, "forbidden_tenant".into()));
    for (method, path) in [
        ("GET", "/sessions/other/s"),
        ("DELETE", "/sessions/other/s"),
        // The same answer, whether the session is there or not.
        ("GET", "/sessions/other/none"),
    ] {
        let answer = ask(&service, method, path, &acme).await;
        assert_eq!(
            answer.problem(),
            (403, "forbidden_tenant".into()),
            "{method} {path}"
        );
    }
    assert_eq!(
        ask(&service, "DELETE", "/sessions/other/s", &admin)
            .await
            .status,
        204
    );
    assert_eq!(
        ask(&service, "DELETE", "/sessions/acme/s", &acme)
            .await
            .status,
        204
    );
    assert_eq!(
        ask(&service, "DELETE", "/sessions/acme/s", &acme)
            .await
            .problem(),
        (404, "not_found".into())
    );
}

#[tokio::test]
async fn only_what_has_no_secrets_is_open() {
    let service = guarded(None, None).await;
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"] {
        assert_eq!(service.get(path).await.status, 200, "{path}");
    }
    for path in ["/backends", "/sessions", "/sessions/a/b"] {
        assert_eq!(service.get(path).await.status, 401, "{path}");
    }
}

#[tokio::test]
async fn without_tokens_foreign_pages_are_kept_out() {
    let service = start().await;
    let call = async |origin: &str| {
        let headers = [("origin", origin)];
        service
            .post_with("/bash", &headers, json!({"command": "true"}))
            .await
    };
    for origin in [
        "https://evil.example",
        "http://localhost.evil.example",
        "null",
    ] {
        assert_eq!(
            call(origin).await.problem(),
            (403, "forbidden".into()),
            "{origin}"
        );
    }
    for origin in ["http://localhost:3000", "http://127.0.0.1:8080"] {
        assert_eq!(call(origin).await.status, 200, "{origin}");
    }
}

#[tokio::test]
async fn without_tokens_a_name_that_a_page_let_lead_here_is_refused() {
    let with = |auth, hosts: &[&str]| {
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        start_with(Setup {
            auth,
            settings: HttpSettings {
                hosts,
                ..settings()
            },
            ..Setup::default()
        })
    };
    let sessions = async |service: &Service, host| {
        let headers = [("host", host)];
        service.send("GET", "/sessions", &headers, "").await
    };
    let guarded = with(Auth::on(Some(tokens(None, None)), None), &[]).await;
    assert_eq!(sessions(&guarded, "evil.example").await.status, 401);
    let service = with(Auth::off(), &["sandbox.internal"]).await;
    let foreign = sessions(&service, "evil.example:8080").await;
    assert_eq!(foreign.problem(), (403, "forbidden".into()));
    for host in ["localhost:8080", "127.0.0.1:8080", "sandbox.internal"] {
        assert_eq!(sessions(&service, host).await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn an_api_key_is_taken_in_either_header() {
    let (keys, [key, admin, revoked]) = api_keys().await;
    let service = guarded_by(Auth::on(Some(tokens(None, None)), Some(keys))).await;
    let call = async |headers: &[(&str, &str)], body: Value| {
        service.post_with("/bash", headers, body).await
    };
    let run = json!({"command": "true", "session_id": "s"});
    let bearer = format!("Bearer {key}");
    for headers in [("x-api-key", key.as_str()), ("authorization", &bearer)] {
        assert_eq!(call(&[headers], run.clone()).await.status, 200);
    }
    let foreign = json!({"command": "true", "tenant_id": "other"});
    for key in [&key, &admin] {
        let answer = call(&[("x-api-key", key)], foreign.clone()).await;
        assert_eq!(answer.problem(), (403, "forbidden_tenant".into()));
    }
    let wrong_secret = format!("{}{}", &key[..key.len() - 8], "AAAAAAAA");
    for (bad, detail) in [
        (wrong_secret.as_str(), "the API key is not valid"),
        ("sbx_", "the API key is not valid"),
        ("", "the API key is not valid"),
        (&revoked, "the API key was revoked"),
    ] {
        let answer = call(&[("x-api-key", bad)], run.clone()).await;
        assert_eq!(answer.problem(), (401, "unauthorized".into()), "{bad}");
        assert_eq!(answer.detail(), detail);
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    // The admin's key manages the sessions of every tenant, the other does not.
    let other = token(&claims(json!({"tenant_id": "other"})));
    bash(&service, &other, json!({"session_id": "t"})).await;
    let see = async |key: &str| {
        let headers = [("x-api-key", key)];
        service
            .send("GET", "/sessions/other/t", &headers, "")
            .await
            .status
    };
    assert_eq!(see(&key).await, 403);
    assert_eq!(see(&admin).await, 200);
}

#[tokio::test]
async fn two_credentials_are_none() {
    let (keys, [key, ..]) = api_keys().await;
    let service = guarded_by(Auth::on(Some(tokens(None, None)), Some(keys))).await;
    let good = format!("Bearer {}", token(&claims(json!({}))));
    let bearer_key = format!("Bearer {key}");
    for headers in [
        [("authorization", good.as_str()), ("x-api-key", &key)],
        [("authorization", &bearer_key), ("x-api-key", &key)],
        [("authorization", "Basic dTpw"), ("x-api-key", &key)],
        [("authorization", &good), ("authorization", &good)],
        [("authorization", &good), ("authorization", "")],
        [("x-api-key", &key), ("X-API-Key", &key)],
    ] {
        let answer = service
            .post_with("/bash", &headers, json!({"command": "true"}))
            .await;
        assert_eq!(
            answer.problem(),
            (401, "unauthorized".into()),
            "{headers:?}"
        );
    }
    for name in ["authorization", "x-api-key"] {
        let not_text = format!("Bearer {}", '\u{e9}');
        let answer = service
            .post_with("/bash", &[(name, &not_text)], json!({"command": "true"}))
            .await;
        assert_eq!(answer.problem(), (401, "unauthorized".into()), "{name}");
    }
    assert!(service.sessions.list().is_empty());
}

#[tokio::test]
async fn a_credential_of_the_other_kind_says_which_is_taken() {
    let (keys, [key, ..]) = api_keys().await;
    let by_token = guarded(None, None).await;
    let by_key = guarded_by(Auth::on(None, Some(keys))).await;
    let nobody = guarded_by(Auth::on(None, None)).await;
    let good = format!("Bearer {}", token(&claims(json!({}))));
    let bearer_key = format!("Bearer {key}");
    let ask = async |service: &Service, headers: &[(&str, &str)]| {
        let answer = service
            .post_with("/bash", headers, json!({"command": "true"}))
            .await;
        (answer.status.as_u16(), answer.detail())
    };
    let keys_only = "tokens are not taken here, an API key is needed";
    let tokens_only = "API keys are not taken here, a bearer token is needed";
    for (service, headers, detail) in [
        (&by_token, vec![("x-api-key", key.as_str())], tokens_only),
        (&by_token, vec![("authorization", &bearer_key)], tokens_only),
        (&by_key, vec![("authorization", &good)], keys_only),
        (&by_key, vec![], "an API key is needed"),
        (&nobody, vec![("authorization", &good)], keys_only),
        (&nobody, vec![("x-api-key", &key)], tokens_only),
    ] {
        assert_eq!(ask(service, &headers).await, (401, detail.to_owned()));
    }
}
