//! What is asked of the server, and what is made of its answers.

use sandbox_backend::{Backend as _, Found};
use sandbox_core::{Capability, SandboxId, SandboxSpec};
use serde_json::json;

use crate::fake::{Answer, Fake, KEY, OWNER, created, listed, none};

const EARLY: &str = "2026-01-02T03:04:05Z";
const LATE: &str = "2026-01-02T03:05:05.5Z";

#[tokio::test]
async fn a_list_is_read_to_its_last_page_and_has_what_is_ours() {
    let [one, two, other] = std::array::from_fn(|_| SandboxId::generate());
    let fake = Fake::start([
        Answer::new(
            200,
            json!([
                listed("ione", &one, OWNER, EARLY, "running"),
                listed("iother", &other, "owner-2", EARLY, "running"),
            ]),
        )
        .with("x-next-token", "a+b=&c"),
        Answer::new(
            200,
            json!([
                listed("itwo", &two, OWNER, EARLY, "paused"),
                listed("ionce", &one, OWNER, LATE, "paused"),
            ]),
        ),
        Answer::new(204, ""),
    ])
    .await;
    let mut found = fake.backend().list().await.unwrap();
    found.sort_by_key(|it| it.id != one);
    // Of two that were made for the same, the older one is ended.
    let expected = [&one, &two].map(|id| Found {
        id: id.clone(),
        running: false,
    });
    assert_eq!(found, expected);
    assert_eq!(
        fake.lines(),
        [
            "GET /v2/sandboxes?metadata=sandboxd-owner%3Downer-1&state=running%2Cpaused&limit=100",
            "GET /v2/sandboxes?metadata=sandboxd-owner%3Downer-1&state=running%2Cpaused&limit=100&nextToken=a%2Bb%3D%26c",
            "DELETE /sandboxes/ione",
        ]
    );
    assert!(fake.asked().iter().all(|it| it.headers["x-api-key"] == KEY));
}

#[tokio::test]
async fn what_runs_since_before_is_told() {
    let id = SandboxId::generate();
    let page = json!([listed("ione", &id, OWNER, EARLY, "running")]);
    let fake = Fake::start([Answer::new(200, page)]).await;
    let found = fake.backend().list().await.unwrap();
    assert_eq!(found, [Found { id, running: true }]);
}

#[tokio::test]
async fn what_is_half_made_is_ended_and_made_of_what_was_asked_for() {
    let id = SandboxId::generate();
    let begin = [
        none(),
        Answer::error(503, "no node").with("retry-after", "0"),
        Answer::new(201, created("imade")),
    ];
    // Two calls, each of them four times, and one whether any other would be answered.
    let asleep = (0..9).map(|_| Answer::error(502, "The sandbox was not found"));
    let answers = begin.into_iter().chain(asleep);
    let fake = Fake::start(answers.chain([Answer::new(204, "")])).await;
    let made = fake.backend().create(&id, &SandboxSpec::default()).await;
    let error = made.err().unwrap();
    assert_eq!(error.code().as_str(), "backend_unavailable");
    let asked = fake.asked();
    let lines = fake.lines();
    assert_eq!(lines[1..3], ["POST /v2/sandboxes", "POST /v2/sandboxes"]);
    assert_eq!(lines.last().unwrap(), "DELETE /sandboxes/imade");
    assert_eq!(
        asked[2].body,
        json!({
            "templateID": "own-template",
            "timeout": 900,
            "metadata": {
                "sandboxd-owner": OWNER,
                "sandboxd-sandbox": id.as_str(),
                "sandboxd-internet": "false",
            },
            "allow_internet_access": false,
            "autoPause": true,
            "network": {"allowPublicTraffic": false},
        })
    );
    // So that a create that is sent twice makes one sandbox.
    let once = |n: usize| asked[n].headers["idempotency-key"].clone();
    assert_eq!(once(1), once(2));
    // The key of the account is for the control plane alone, and envd's token for envd.
    let of_envd: Vec<_> = asked
        .iter()
        .filter(|it| !it.path.contains("/sandboxes"))
        .collect();
    assert!(!of_envd.is_empty());
    for asked in of_envd {
        assert!(!asked.headers.contains_key("x-api-key"));
        assert_eq!(asked.headers["x-access-token"], "envd-token-of-it");
        assert_eq!(asked.headers["e2b-sandbox-id"], "imade");
        assert_eq!(asked.headers["e2b-sandbox-port"], "49983");
    }
}

#[tokio::test]
async fn a_sandbox_without_tokens_is_not_used() {
    let mut open = created("iopen");
    open["envdAccessToken"] = json!(null);
    let fake = Fake::start([none(), Answer::new(201, open), Answer::new(204, "")]).await;
    let id = SandboxId::generate();
    let made = fake.backend().create(&id, &SandboxSpec::default()).await;
    let error = made.err().unwrap();
    assert!(error.detail().contains("E2B_SECURE_ACCESS"), "{error}");
    assert_eq!(fake.lines()[2..], ["DELETE /sandboxes/iopen"]);
}

#[tokio::test]
async fn what_is_removed_twice_is_gone() {
    let id = SandboxId::generate();
    let page = json!([listed("ione", &id, OWNER, EARLY, "paused")]);
    let fake = Fake::start([
        Answer::new(200, page),
        Answer::error(404, "sandbox \"ione\" not found"),
    ])
    .await;
    let backend = fake.backend();
    backend.remove(&id).await.unwrap();
    backend.remove(&id).await.unwrap();
    assert_eq!(fake.lines()[1..], ["DELETE /sandboxes/ione"]);
}

#[tokio::test]
async fn what_shall_not_go_on_is_paused_and_ended_where_there_are_no_pauses() {
    let ids: [SandboxId; 2] = std::array::from_fn(|_| SandboxId::generate());
    let page = json!([
        listed("ione", &ids[0], OWNER, EARLY, "running"),
        listed("itwo", &ids[1], OWNER, EARLY, "running"),
    ]);
    let fake = Fake::start([
        Answer::new(200, page),
        // Somebody else has paused it.
        Answer::error(409, "already paused"),
        Answer::error(501, "not here"),
        Answer::new(204, ""),
    ])
    .await;
    let backend = fake.backend();
    backend.end(&ids[0]).await.unwrap();
    let keeps = |backend: &backend_e2b::E2bBackend| {
        let capabilities = backend.capabilities();
        capabilities.contains(&Capability::PersistentWorkspace)
    };
    assert!(keeps(&backend));
    backend.end(&ids[1]).await.unwrap();
    assert!(!keeps(&backend));
    assert_eq!(
        fake.lines()[1..],
        [
            "POST /sandboxes/ione/pause",
            "POST /sandboxes/itwo/pause",
            "DELETE /sandboxes/itwo",
        ]
    );
    assert_eq!(fake.asked()[1].body, json!({"memory": false}));
}
