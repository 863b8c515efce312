//! Tokens, by a set of keys that is fetched.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jsonwebtoken::{EncodingKey, Header};
use sandbox_auth::{Algorithm, JwksTimes};
use sandbox_core::ErrorCode;
use serde_json::json;

use crate::support::{
    Answer, KeyServer, claims, ec, ed, other_ed, refused, rsa, sign, sign_with, subject, times,
};

const UNKNOWN: &str = "the token is signed with a key that is not known";

fn ok() -> Result<String, (ErrorCode, String)> {
    Ok("u".to_owned())
}

fn unavailable() -> Result<String, (ErrorCode, String)> {
    Err((
        ErrorCode::KeysUnavailable,
        "the keys that tokens are signed with could not be fetched yet".to_owned(),
    ))
}

#[tokio::test]
async fn each_key_of_a_set_checks_tokens_of_its_kind() {
    let server = KeyServer::of(&[rsa().jwk("r"), ec().jwk("e"), ed().jwk("d")]).await;
    let auth = server.auth();
    for (pair, id) in [(rsa(), "r"), (ec(), "e"), (ed(), "d")] {
        assert_eq!(subject(&auth, &sign(pair, Some(id))).await, ok(), "{id}");
    }
    let wrong = "the token's algorithm is not the one in use";
    assert_eq!(subject(&auth, &sign(ed(), Some("r"))).await, refused(wrong));
    assert_eq!(
        subject(&auth, &sign(other_ed(), Some("d"))).await,
        refused("the token's signature is wrong")
    );
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn a_token_without_an_id_can_only_mean_the_one_key_that_is_usable() {
    let none = "the token names no key (`kid`), and there is not exactly one";
    let server = KeyServer::of(&[ed().jwk("a"), ec().jwk("b")]).await;
    let auth = server.auth();
    assert_eq!(subject(&auth, &sign(ed(), None)).await, refused(none));
    let pinned = server.auth_with(times(), Some(Algorithm::EdDsa));
    assert_eq!(subject(&pinned, &sign(ed(), None)).await, ok());
    assert_eq!(
        subject(&pinned, &sign(ec(), Some("b"))).await,
        refused(UNKNOWN)
    );
    let mut nameless = ed().jwk("a");
    nameless.as_object_mut().unwrap().remove("kid");
    let server = KeyServer::of(&[nameless]).await;
    let auth = server.auth();
    assert_eq!(subject(&auth, &sign(ed(), None)).await, ok());
    assert_eq!(
        subject(&auth, &sign(ed(), Some("a"))).await,
        refused(UNKNOWN)
    );
}

#[tokio::test]
async fn keys_that_change_are_fetched_when_a_token_names_one() {
    let server = KeyServer::of(&[ed().jwk("old")]).await;
    let auth = server.auth();
    assert_eq!(subject(&auth, &sign(ed(), Some("old"))).await, ok());
    server.answer(Answer::Keys(vec![other_ed().jwk("new")]));
    assert_eq!(subject(&auth, &sign(other_ed(), Some("new"))).await, ok());
    assert_eq!(
        subject(&auth, &sign(ed(), Some("old"))).await,
        refused(UNKNOWN)
    );
}

#[tokio::test]
async fn invented_ids_cause_no_storm_of_fetches() {
    let server = KeyServer::of(&[ed().jwk("k")]).await;
    let rare = JwksTimes {
        between_fetches: Duration::from_secs(3600),
        ..times()
    };
    let auth = server.auth_with(rare, None);
    for at in 0..300 {
        let invented = sign(ed(), Some(&format!("invented-{at}")));
        assert_eq!(subject(&auth, &invented).await, refused(UNKNOWN));
    }
    assert_eq!(subject(&auth, &sign(ed(), Some("k"))).await, ok());
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn requests_at_the_same_time_share_a_fetch() {
    let server = KeyServer::start(Answer::Held(vec![ed().jwk("k")])).await;
    let auth = Arc::new(server.auth());
    let ask = |id: String| {
        let auth = Arc::clone(&auth);
        let token = sign(ed(), Some(&id));
        tokio::spawn(async move { subject(&auth, &token).await })
    };
    let early: Vec<_> = (0..50).map(|_| ask("k".into())).collect();
    server.until_requests(1).await;
    server.release();
    for answer in early {
        assert_eq!(answer.await.unwrap(), ok());
    }
    assert_eq!(server.requests(), 1);
    let invented: Vec<_> = (0..50).map(|at| ask(format!("x{at}"))).collect();
    for answer in invented {
        assert_eq!(answer.await.unwrap(), refused(UNKNOWN));
    }
    // On one thread, all fifty asked before the fetch began.
    assert_eq!(server.requests(), 2);
}

#[tokio::test]
async fn the_last_good_set_outlives_its_url() {
    let server = KeyServer::of(&[ed().jwk("k")]).await;
    let auth = server.auth();
    let good = sign(ed(), Some("k"));
    assert_eq!(subject(&auth, &good).await, ok());
    for (at, bad) in [
        Answer::Status(500),
        Answer::Status(404),
        Answer::Status(204),
        Answer::Text("<html>".into()),
        Answer::Text("{}".into()),
        Answer::Text("\0".into()),
        Answer::Cut,
    ]
    .into_iter()
    .enumerate()
    {
        server.answer(bad);
        let unknown = sign(ed(), Some("unknown"));
        assert_eq!(subject(&auth, &unknown).await, refused(UNKNOWN));
        assert_eq!(server.requests(), at + 2, "it was asked");
        assert_eq!(subject(&auth, &good).await, ok());
    }
    server.answer(Answer::Keys(vec![ed().jwk("k"), ec().jwk("again")]));
    assert_eq!(subject(&auth, &sign(ec(), Some("again"))).await, ok());
    drop(server);
    assert_eq!(
        subject(&auth, &sign(ed(), Some("unknown"))).await,
        refused(UNKNOWN)
    );
    assert_eq!(subject(&auth, &good).await, ok());
}

#[tokio::test]
async fn an_issuer_may_withdraw_every_key() {
    let server = KeyServer::of(&[ed().jwk("k")]).await;
    let auth = server.auth();
    assert_eq!(subject(&auth, &sign(ed(), Some("k"))).await, ok());
    server.answer(Answer::Keys(Vec::new()));
    assert_eq!(
        subject(&auth, &sign(ed(), Some("other"))).await,
        refused(UNKNOWN)
    );
    assert_eq!(
        subject(&auth, &sign(ed(), Some("k"))).await,
        refused(UNKNOWN)
    );
}

#[tokio::test]
async fn without_any_set_the_answer_says_to_come_back() {
    let server = KeyServer::start(Answer::Status(503)).await;
    let auth = server.auth();
    for token in [sign(ed(), Some("k")), sign(ed(), None)] {
        assert_eq!(subject(&auth, &token).await, unavailable());
    }
    server.answer(Answer::Keys(vec![ed().jwk("k")]));
    assert_eq!(subject(&auth, &sign(ed(), None)).await, ok());

    let down = KeyServer::start(Answer::Status(503)).await;
    let rare = JwksTimes {
        between_fetches: Duration::from_secs(40),
        ..times()
    };
    let auth = down.auth_with(rare, None);
    let token = sign(ed(), Some("k"));
    for _ in 0..20 {
        let credential = sandbox_auth::Credential::Token(&token);
        let error = auth.identify(Some(credential)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::KeysUnavailable);
        let after = error.retry_after().unwrap();
        assert!(Duration::from_secs(30) < after && after <= Duration::from_secs(40));
    }
    assert_eq!(down.requests(), 1);
}

#[tokio::test]
async fn a_set_that_has_aged_is_fetched_unasked() {
    let server = KeyServer::of(&[ed().jwk("k")]).await;
    let short = JwksTimes {
        max_age: Duration::from_millis(10),
        ..times()
    };
    let auth = server.auth_with(short, None);
    assert_eq!(subject(&auth, &sign(ed(), Some("k"))).await, ok());
    server.answer(Answer::Keys(vec![ec().jwk("k")]));
    // The one under way may still have the old answer.
    server.until_requests(server.requests() + 2).await;
    assert_eq!(
        subject(&auth, &sign(ed(), Some("k"))).await,
        refused("the token's algorithm is not the one in use")
    );
}

#[tokio::test]
async fn a_set_that_failed_is_fetched_again_unasked() {
    let server = KeyServer::start(Answer::Status(500)).await;
    let quick = JwksTimes {
        retry: Duration::from_millis(10),
        ..times()
    };
    let _auth = server.auth_with(quick, None);
    server.until_requests(3).await;
}

#[tokio::test]
async fn a_fetch_ends_with_who_wanted_it() {
    let server = KeyServer::start(Answer::Silent).await;
    let auth = server.auth();
    server.until_requests(1).await;
    drop(auth);
    server.until_hung_up().await;
}

#[tokio::test]
async fn secrets_and_keys_for_other_uses_check_nothing() {
    let secret = b"a secret that everybody can read!";
    let oct = |id: &str| json!({"kty": "oct", "k": "YSBzZWNyZXQgdGhhdCBldmVyeWJvZHkgY2FuIHJlYWQh", "alg": "HS256", "kid": id});
    let mut enc = ec().jwk("enc");
    enc["use"] = json!("enc");
    let mut lies = rsa().jwk("lies");
    lies["alg"] = json!("HS256");
    let server = KeyServer::of(&[
        oct("oct"),
        enc,
        lies,
        json!("garbage"),
        json!({"kty": 7}),
        ed().jwk("k"),
    ])
    .await;
    let auth = server.auth();
    assert_eq!(subject(&auth, &sign(ed(), Some("k"))).await, ok());
    assert_eq!(
        subject(&auth, &sign(ed(), None)).await,
        ok(),
        "it is the one usable key"
    );
    let signed = |secret: &[u8], id: Option<&str>| {
        let header = Header {
            kid: id.map(str::to_owned),
            ..Header::default()
        };
        jsonwebtoken::encode(&header, &claims(), &EncodingKey::from_secret(secret)).unwrap()
    };
    let confused = "the token's algorithm is not the one in use";
    for (token, detail) in [
        (signed(secret, Some("oct")), UNKNOWN),
        (signed(secret, None), confused),
        (signed(rsa().public_pem.as_bytes(), Some("lies")), UNKNOWN),
        (signed(ed().public_pem.as_bytes(), Some("k")), confused),
        (sign(ec(), Some("enc")), UNKNOWN),
        (sign(rsa(), Some("lies")), UNKNOWN),
    ] {
        assert_eq!(subject(&auth, &token).await, refused(detail));
    }
}

async fn gives_up(answer: Answer, limit: Duration) -> Duration {
    let server = KeyServer::start(answer).await;
    let auth = server.auth_with(
        JwksTimes {
            fetch_limit: limit,
            between_fetches: Duration::from_secs(3600),
            ..times()
        },
        None,
    );
    let started = Instant::now();
    assert_eq!(subject(&auth, &sign(ed(), Some("k"))).await, unavailable());
    started.elapsed()
}

#[tokio::test]
async fn a_slow_answer_is_given_up() {
    let limit = Duration::from_millis(300);
    for answer in [Answer::Silent, Answer::Drip] {
        assert!(gives_up(answer, limit).await < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn an_endless_answer_is_given_up_at_its_size() {
    let took = gives_up(Answer::Endless, Duration::from_secs(60)).await;
    assert!(took < Duration::from_secs(30), "{took:?}");
    let large = json!({"keys": [], "x": "x".repeat(1 << 20)}).to_string();
    gives_up(Answer::Text(large), Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = KeyServer::of(&[ed().jwk("k")]).await;
    gives_up(Answer::Redirect(other.url.clone()), Duration::from_secs(10)).await;
    assert_eq!(other.requests(), 0);
}

#[tokio::test]
async fn a_token_that_brings_a_key_or_a_url_changes_nothing() {
    let theirs = KeyServer::of(&[other_ed().jwk("theirs")]).await;
    let server = KeyServer::of(&[ed().jwk("k")]).await;
    let auth = server.auth();
    let bring = |id: &str| Header {
        kid: Some(id.into()),
        jku: Some(theirs.url.clone()),
        x5u: Some(theirs.url.clone()),
        jwk: Some(serde_json::from_value::<jsonwebtoken::jwk::Jwk>(other_ed().jwk(id)).unwrap()),
        ..Header::new(other_ed().algorithm)
    };
    let forged: Vec<String> = ["k", "theirs", &theirs.url, "../../etc/passwd", "' OR 1=1"]
        .into_iter()
        .map(|id| sign_with(other_ed(), &bring(id), &claims()))
        .collect();
    for token in &forged {
        let answer = subject(&auth, token).await;
        assert!(
            matches!(&answer, Err((ErrorCode::Unauthorized, _))),
            "{answer:?}"
        );
    }
    assert_eq!(theirs.requests(), 0);
}
