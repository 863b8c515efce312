//! Tokens, by one key.

use jsonwebtoken::{Algorithm as Alg, EncodingKey, Header, crypto::sign as sign_raw};
use sandbox_auth::{Algorithm, Auth, KeyError, TokenRules, Tokens, VerifyingKey};
use serde_json::{Value, json};

use crate::support::{
    KeyServer, Pair, claims, ec, ed, encode_raw, openssl, other_ed, refused, rsa, sign, sign_with,
    subject,
};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn by(pair: &Pair) -> Auth {
    by_key(VerifyingKey::from_pem(&pair.public_pem).unwrap())
}

fn by_key(key: VerifyingKey) -> Auth {
    let rules = TokenRules {
        leeway_seconds: 30,
        ..TokenRules::default()
    };
    Auth::on(Some(Tokens::signed_by(key, rules)), None)
}

fn hs256() -> Auth {
    by_key(VerifyingKey::from_secret(SECRET).unwrap())
}

fn hmac(header: &Header, claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    jsonwebtoken::encode(header, claims, &key).unwrap()
}

#[tokio::test]
async fn a_token_is_taken_by_the_key_that_it_is_signed_for_and_by_no_other() {
    let pairs = [rsa(), ec(), ed(), other_ed()];
    for (at, signer) in pairs.into_iter().enumerate() {
        let token = sign(signer, None);
        for (other, checker) in pairs.into_iter().enumerate() {
            let answer = subject(&by(checker), &token).await;
            if at == other {
                assert_eq!(answer, Ok("u".to_owned()));
            } else if signer.algorithm == checker.algorithm {
                assert_eq!(answer, refused("the token's signature is wrong"));
            } else {
                assert_eq!(
                    answer,
                    refused("the token's algorithm is not the one in use")
                );
            }
        }
        assert!(subject(&hs256(), &token).await.is_err());
    }
}

#[tokio::test]
async fn a_public_key_is_no_secret() {
    // CVE-2015-9235: the public key, taken as the secret of HS256.
    for pair in [rsa(), ec(), ed()] {
        for secret in [pair.public_pem.as_str(), pair.public_pem.trim_end()] {
            let key = EncodingKey::from_secret(secret.as_bytes());
            let forged = jsonwebtoken::encode(&Header::default(), &claims(), &key).unwrap();
            assert_eq!(
                subject(&by(pair), &forged).await,
                refused("the token's algorithm is not the one in use")
            );
        }
        let as_secret = VerifyingKey::from_secret(&pair.public_pem);
        assert_eq!(as_secret.err(), Some(KeyError::SecretIsPem));
    }
}

#[tokio::test]
async fn a_token_without_a_signature_is_refused_however_it_is_spelt() {
    for auth in [hs256(), by(rsa()), by(ec()), by(ed())] {
        for alg in ["none", "None", "nOnE", "NONE", "", "HS256 ", "null"] {
            let header = json!({"typ": "JWT", "alg": alg}).to_string();
            for signature in ["", "AAAA", "e30"] {
                let token = encode_raw(&header, &claims(), |_| signature.to_owned());
                assert_eq!(
                    subject(&auth, &token).await,
                    refused("the token is not valid"),
                    "{alg}"
                );
            }
        }
        for header in ["{}", r#"{"alg":null}"#, r#"{"alg":["HS256"]}"#, "", "[]"] {
            let token = encode_raw(header, &claims(), |_| String::new());
            assert_eq!(
                subject(&auth, &token).await,
                refused("the token is not valid"),
                "{header}"
            );
        }
    }
    // The right algorithm, and no signature.
    for pair in [rsa(), ec(), ed()] {
        let good = sign(pair, None);
        let unsigned = &good[..=good.rfind('.').unwrap()];
        assert_eq!(
            subject(&by(pair), unsigned).await,
            refused("the token's signature is wrong")
        );
        // CVE-2022-21449: zeros for ECDSA.
        let zeros = format!("{unsigned}{}", "A".repeat(86));
        assert!(subject(&by(pair), &zeros).await.is_err());
    }
}

#[tokio::test]
async fn other_algorithms_of_the_same_key_are_refused() {
    for alg in [Alg::RS384, Alg::RS512, Alg::PS256] {
        let token = sign_with(rsa(), &Header::new(alg), &claims());
        assert_eq!(
            subject(&by(rsa()), &token).await,
            refused("the token's algorithm is not the one in use")
        );
    }
    let token = hmac(&Header::new(Alg::HS512), &claims());
    assert_eq!(
        subject(&hs256(), &token).await,
        refused("the token's algorithm is not the one in use")
    );
}

#[tokio::test]
async fn keys_that_a_token_brings_along_are_not_looked_at() {
    let theirs = KeyServer::of(&[other_ed().jwk("k")]).await;
    let mut header = Header::new(Alg::EdDSA);
    header.kid = Some("k".into());
    header.jku = Some(theirs.url.clone());
    header.x5u = Some(theirs.url.clone());
    header.jwk = Some(serde_json::from_value(other_ed().jwk("k")).unwrap());
    let forged = sign_with(other_ed(), &header, &claims());
    assert_eq!(
        subject(&by(ed()), &forged).await,
        refused("the token's signature is wrong")
    );
    let ours = sign_with(ed(), &header, &claims());
    assert_eq!(subject(&by(ed()), &ours).await, Ok("u".to_owned()));
    assert_eq!(theirs.requests(), 0);
}

#[tokio::test]
async fn a_header_that_must_be_understood_is_refused() {
    for crit in [r#"["exp"]"#, r#"["b64"]"#, "[]", r#"["\n"]"#] {
        let header = format!(r#"{{"alg":"HS256","crit":{crit},"b64":false,"exp":1}}"#);
        let key = EncodingKey::from_secret(SECRET.as_bytes());
        let token = encode_raw(&header, &claims(), |message| {
            sign_raw(message, &key, Alg::HS256).unwrap()
        });
        assert_eq!(
            subject(&hs256(), &token).await,
            refused("the token's `crit` header is not understood"),
            "{crit}"
        );
    }
}

#[tokio::test]
async fn huge_and_odd_tokens_are_refused() {
    let mut large = claims();
    large["more"] = json!("x".repeat(16 << 10));
    let token = hmac(&Header::default(), &large);
    assert_eq!(
        subject(&hs256(), &token).await,
        refused("the token is too long")
    );
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let header = format!(r#"{{"alg":"HS256","x":{deep}}}"#);
    for token in [
        encode_raw(&header, &claims(), |_| "AAAA".to_owned()),
        ".".to_owned(),
        "..".to_owned(),
        "...".to_owned(),
        "a.b".to_owned(),
        "\u{e9}.\u{e9}.\u{e9}".to_owned(),
    ] {
        assert_eq!(
            subject(&hs256(), &token).await,
            refused("the token is not valid")
        );
    }
    // Signed, and its claims are no claims.
    for claims in [json!(null), json!([]), json!("x"), json!(7)] {
        let token = jsonwebtoken::encode(&Header::default(), &claims, &key).unwrap();
        assert!(subject(&hs256(), &token).await.is_err(), "{claims}");
    }
}

#[tokio::test]
async fn claims_of_the_wrong_kind_are_refused() {
    for (name, value, detail) in [
        ("exp", json!("9000000000"), "the token has no valid `exp`"),
        ("exp", json!(1e308), "the token has no valid `exp`"),
        ("exp", json!(-1), "the token has no valid `exp`"),
        ("exp", json!(true), "the token has no valid `exp`"),
        ("exp", json!([9_000_000_000_u64]), "the token is not valid"),
        ("nbf", json!("soon"), "the token is not valid"),
        (
            "nbf",
            json!(8_000_000_000_u64),
            "the token is not valid yet",
        ),
        ("sub", json!(7), "the token is not valid"),
        ("sub", json!(""), "the token has no valid `sub`"),
        ("sub", json!("a\nb"), "the token has no valid `sub`"),
        (
            "sub",
            json!("x".repeat(257)),
            "the token has no valid `sub`",
        ),
        (
            "sub",
            json!("key:0123456789abcdef"),
            "the token's `sub` is a name that the service gives to others",
        ),
        ("tenant_id", json!(["acme"]), "the token is not valid"),
        (
            "tenant_id",
            json!("acme\0"),
            "the token's tenant is not a valid tenant_id",
        ),
        (
            "tenants",
            json!(["acme", "../x"]),
            "the token's tenant is not a valid tenant_id",
        ),
        ("tenants", json!("acme"), "the token is not valid"),
        (
            "tenants",
            json!(["*"]),
            "only an admin's token is for tenant `*`",
        ),
        ("role", json!(["admin"]), "the token is not valid"),
        (
            "scope",
            json!({"sandbox:admin": 1}),
            "the token is not valid",
        ),
    ] {
        let mut claims = claims();
        claims[name] = value.clone();
        let answer = subject(&hs256(), &hmac(&Header::default(), &claims)).await;
        assert_eq!(answer, refused(detail), "{name} {value}");
    }
}

#[test]
fn only_a_public_key_of_a_kind_that_is_known_is_taken() {
    for (pair, algorithm) in [
        (rsa(), Algorithm::Rs256),
        (ec(), Algorithm::Es256),
        (ed(), Algorithm::EdDsa),
    ] {
        let key = VerifyingKey::from_pem(&pair.public_pem).unwrap();
        assert_eq!(key.algorithm(), algorithm);
        let spaced = format!("\n\n{}\n", pair.public_pem);
        assert!(VerifyingKey::from_pem(&spaced).is_ok());
        let private = VerifyingKey::from_pem(&pair.private_pem);
        assert_eq!(private.err(), Some(KeyError::Private));
    }
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let public = |options: &[&str]| {
        let private = openssl(&[&["genpkey"], options].concat(), b"");
        text(openssl(&["pkey", "-pubout"], &private))
    };
    let pkcs1 = openssl(&["rsa", "-RSAPublicKey_out"], rsa().private_pem.as_bytes());
    assert!(VerifyingKey::from_pem(&text(pkcs1)).is_ok());
    let error = |pem: &str| VerifyingKey::from_pem(pem).err();
    let p384 = public(&["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"]);
    assert_eq!(error(&p384), Some(KeyError::Kind));
    assert_eq!(
        error(&public(&["-algorithm", "ED448"])),
        Some(KeyError::Kind)
    );
    assert_eq!(
        error(&public(&["-algorithm", "X25519"])),
        Some(KeyError::Kind)
    );
    let short = public(&["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"]);
    assert_eq!(error(&short), Some(KeyError::Size));
    for bad in ["", "x", "-----BEGIN PUBLIC KEY-----", SECRET] {
        assert_eq!(error(bad), Some(KeyError::Pem), "{bad}");
    }
    let damaged = ed().public_pem.replacen("MC", "AA", 1);
    assert_eq!(error(&damaged), Some(KeyError::Damaged));
    let certificate = ed().public_pem.replace("PUBLIC KEY", "CERTIFICATE");
    assert_eq!(error(&certificate), Some(KeyError::Pem));
}
