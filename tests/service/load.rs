//! More callers than the service has places for.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{Answer, Client, Service, until};

/// A run of the tenant that takes this long.
fn run(client: &Client, tenant: &str, seconds: &str) -> Answer {
    client.post("/bash", body(tenant, seconds))
}

fn body(tenant: &str, seconds: &str) -> Value {
    json!({"tenant_id": tenant, "session_id": "s", "command": format!("sleep {seconds}")})
}

fn running_and_waiting(service: &Service) -> (f64, f64) {
    (
        service.metric("sandbox_runs_active"),
        service.metric("sandbox_runs_waiting"),
    )
}

fn refused(service: &Service, code: &str) -> f64 {
    service.metric(&format!(
        "sandbox_requests_refused_total{{code=\"{code}\"}}"
    ))
}

#[test]
fn a_tenant_with_64_clients_does_not_starve_one_with_1() {
    let service =
        Service::start_with(&[("SANDBOX_TOTAL_RUNS", "2"), ("SANDBOX_SESSION_RUNS", "16")]);
    let client = service.client();
    for tenant in ["many", "one"] {
        assert_eq!(run(&client, tenant, "0").status, 200);
    }
    let stop = AtomicBool::new(false);
    let of_many = AtomicUsize::new(0);
    let of_one = 20;
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let answer = run(&client, "many", "0.02");
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    of_many.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        until("most of the many wait", || {
            running_and_waiting(&service).1 >= 50.0
        });
        let before = of_many.load(Ordering::SeqCst);
        for _ in 0..of_one {
            let answer = run(&client, "one", "0.02");
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
        let meanwhile = of_many.load(Ordering::SeqCst) - before;
        stop.store(true, Ordering::SeqCst);
        // With two places about three of theirs pass for each of its own.
        assert!(
            (1..=4 * of_one + 2).contains(&meanwhile),
            "{meanwhile} of the many passed for {of_one} of the one"
        );
    });
}

#[test]
fn beyond_the_queues_runs_are_refused_and_told_when_to_come_again() {
    let service = Service::start_with(&[
        ("SANDBOX_TOTAL_RUNS", "1"),
        ("SANDBOX_TENANT_QUEUE", "2"),
        ("SANDBOX_TOTAL_QUEUE", "3"),
    ]);
    let client = service.client();
    // Its self-test is over.
    until("it is ready", || service.get("/readyz").status == 200);
    std::thread::scope(|scope| {
        let mut calls = Vec::new();
        let mut calls_wait = |tenant: &'static str, count: f64| {
            calls.push(scope.spawn(|| run(&client, tenant, "3").status));
            until("it waits", || running_and_waiting(&service) == (1.0, count));
        };
        for (tenant, waiting) in [("a", 0.0), ("a", 1.0), ("a", 2.0), ("b", 3.0)] {
            calls_wait(tenant, waiting);
        }
        let busy = run(&client, "a", "0");
        assert_eq!((busy.status, busy.code()), (429, "tenant_busy"));
        let overloaded = run(&client, "b", "0");
        assert_eq!((overloaded.status, overloaded.code()), (503, "overloaded"));
        for answer in [&busy, &overloaded] {
            assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
            assert_eq!(answer.header("content-type"), "application/problem+json");
            // Other tenants are not spoken of.
            let detail = answer.body["detail"].as_str().unwrap();
            assert!(!detail.contains('`'), "{detail}");
        }
        // Whoever asks how the service is must not wait in that line.
        for path in ["/healthz", "/readyz", "/metrics", "/sessions"] {
            let began = Instant::now();
            assert_eq!(service.get(path).status, 200, "{path}");
            assert!(began.elapsed() < Duration::from_secs(2), "{path}");
        }
        for call in calls {
            assert_eq!(call.join().unwrap(), 200);
        }
    });
    assert_eq!(running_and_waiting(&service), (0.0, 0.0));
    assert_eq!(refused(&service, "tenant_busy"), 1.0);
    assert_eq!(refused(&service, "overloaded"), 1.0);
}

#[test]
fn a_client_that_goes_away_leaves_the_queue() {
    use std::io::Write as _;
    let service = Service::start_with(&[("SANDBOX_TOTAL_RUNS", "1")]);
    let client = service.client();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&client, "a", "3").status);
        until("it runs", || running_and_waiting(&service) == (1.0, 0.0));
        let address = service.url.strip_prefix("http://").unwrap();
        let mut gone = std::net::TcpStream::connect(address).unwrap();
        let body = body("b", "0").to_string();
        let length = body.len();
        write!(
            gone,
            "POST /bash HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        until("it waits", || running_and_waiting(&service) == (1.0, 1.0));
        drop(gone);
        until("it has left", || {
            running_and_waiting(&service) == (1.0, 0.0)
        });
        assert_eq!(running.join().unwrap(), 200);
    });
}

#[test]
fn a_run_that_waits_too_long_is_refused() {
    let service = Service::start_with(&[
        ("SANDBOX_TOTAL_RUNS", "1"),
        ("SANDBOX_QUEUE_WAIT_SECONDS", "1"),
    ]);
    let client = service.client();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&client, "a", "4").status);
        until("it runs", || running_and_waiting(&service) == (1.0, 0.0));
        let late = run(&client, "b", "0");
        assert_eq!((late.status, late.code()), (503, "overloaded"));
        assert!(!late.header("retry-after").is_empty());
        assert_eq!(running.join().unwrap(), 200);
    });
}

#[test]
fn requests_beyond_a_tenants_rate_are_refused_before_their_body_is_read() {
    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    let service = Service::start_with(&[
        ("SANDBOX_JWT_SECRET", SECRET),
        ("SANDBOX_REQUESTS_PER_SECOND", "1"),
        ("SANDBOX_REQUEST_BURST", "3"),
    ]);
    let client = |tenants: Value| {
        let claims = json!({"sub": "t", "exp": 4_000_000_000u64, "tenants": tenants});
        let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
        let token = jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key);
        service.client().with_token(&token.unwrap())
    };
    let list = |client: &Client, tenant: &str| {
        client.send("GET", &format!("/sessions?tenant_id={tenant}"), &[], None)
    };
    let a = client(json!(["a"]));
    for _ in 0..3 {
        assert_eq!(list(&a, "a").status, 200);
    }
    // The body is no JSON; that it is not looked at any more is seen by the code.
    until("the burst is over", || {
        let headers = [("content-type", "application/json")];
        let answer = a.send("POST", "/execute", &headers, Some(b"{"));
        match answer.code() {
            "invalid_request" => false,
            "rate_limited" => {
                assert_eq!((answer.status, answer.header("retry-after")), (429, "1"));
                true
            }
            code => panic!("{code}"),
        }
    });

    // Each of several tenants has a rate of its own, and one does not pay for another.
    let both = client(json!(["a", "b"]));
    until("the burst is over", || list(&both, "a").status == 429);
    assert_eq!(list(&both, "b").status, 200);
    // A tenant that the token is not for pays nothing.
    assert_eq!(list(&both, "c").status, 403);
    for _ in 0..10 {
        assert_eq!(service.get("/healthz").status, 200);
        assert_eq!(service.get("/metrics").status, 200);
    }
    until("the time that was told is over", || {
        list(&a, "a").status == 200
    });
}
