//! What goes wrong at the server's side, and what our callers learn of it.

use std::time::{Duration, Instant};

use sandbox_backend::Backend as _;
use sandbox_core::{ErrorCode, SandboxId, SandboxSpec, chain};

use crate::fake::{Answer, Fake, KEY, backend_at, none};

/// For each answer to a create, what the caller is told.
#[tokio::test]
async fn an_error_of_the_server_is_told_plainly_and_without_its_words() {
    for (answer, told) in [
        (
            Answer::error(401, "invalid key of team-secret-name"),
            "the E2B server refuses the key in E2B_API_KEY",
        ),
        (
            Answer::error(402, "team-secret-name"),
            "the E2B account has used up its quota",
        ),
        (
            Answer::error(403, "team-secret-name is blocked: billing limit reached"),
            "the E2B account has used up its quota",
        ),
        (
            Answer::error(403, "team-secret-name may not"),
            "the E2B server does not let the key in E2B_API_KEY make a sandbox",
        ),
        (
            Answer::error(404, "template 'own-template' of team-secret-name not found"),
            "the E2B server does not know the template in E2B_TEMPLATE",
        ),
        (
            Answer::error(
                400,
                "Timeout cannot be greater than 1 hours, team-secret-name",
            ),
            "the E2B server did not make a sandbox",
        ),
        (
            Answer::new(201, "<html>team-secret-name</html>"),
            "what the E2B server answers to make a sandbox is not understood",
        ),
        (
            Answer::error(500, "node team-secret-name").with("should-retry", "false"),
            "the E2B server is in trouble",
        ),
    ] {
        let fake = Fake::start([none(), answer]).await;
        let id = SandboxId::generate();
        let made = fake.backend().create(&id, &SandboxSpec::default()).await;
        let error = made.err().unwrap();
        assert_eq!(error.code(), ErrorCode::BackendUnavailable);
        assert_eq!(error.detail(), told);
        assert_eq!(fake.asked().len(), 2, "{told}: another try changes nothing");
        let all = format!("{} {error:?}", chain(&error));
        assert!(!all.contains(KEY) && !all.contains("a secret of"), "{all}");
    }
}

#[tokio::test]
async fn who_is_sent_away_for_a_while_comes_again() {
    let busy = || Answer::error(429, "slow down").with("retry-after", "1");
    let fake = Fake::start([busy(), none()]).await;
    let began = Instant::now();
    fake.backend().list().await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(fake.asked().len(), 2);
}

#[tokio::test]
async fn a_long_wait_is_the_callers() {
    let busy = Answer::error(
        429,
        "you have reached the maximum number of concurrent sandboxes",
    );
    let fake = Fake::start([busy.with("retry-after", "60")]).await;
    let error = fake.backend().list().await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(60)));
    assert_eq!(error.detail(), "the E2B account has used up its quota");
    assert_eq!(fake.asked().len(), 1);
}

#[tokio::test]
async fn trouble_that_does_not_pass_is_told_after_a_few_tries() {
    let broken = || Answer::new(503, "");
    let fake = Fake::start([broken(), broken(), broken(), broken(), none()]).await;
    let error = fake.backend().list().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::BackendUnavailable);
    assert!(error.retry_after().is_some());
    assert_eq!(fake.asked().len(), 4);
}

#[tokio::test]
async fn a_server_that_is_not_there_makes_the_service_not_ready() {
    // Nobody listens on the port of a listener that is gone.
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let backend = backend_at(&gone);
    let readiness = backend.check().await;
    assert_eq!(
        readiness.problems[0].what,
        "the E2B server cannot be reached"
    );
    let error = backend.list().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::BackendUnavailable);
    assert!(error.retry_after().is_some());
}

#[tokio::test]
async fn a_spec_that_the_template_does_not_give_is_refused_before_anything_is_made() {
    let fake = Fake::start([none()]).await;
    let backend = fake.backend();
    let mut spec = SandboxSpec::default();
    spec.limits.cpus = 2.0;
    let made = backend.create(&SandboxId::generate(), &spec).await;
    assert_eq!(made.err().unwrap().code(), ErrorCode::Unsupported);
    let spec = SandboxSpec {
        network: sandbox_core::NetworkPolicy::AllowAll,
        ..SandboxSpec::default()
    };
    let made = backend.create(&SandboxId::generate(), &spec).await;
    assert_eq!(made.err().unwrap().code(), ErrorCode::Unsupported);
    assert_eq!(fake.lines().len(), 1);
}
