//! The control plane.

use std::time::Duration;

use sandbox_admission::AdmissionSettings;
use serde_json::{Value, json};

use crate::support::{Setup, start, start_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_is_made_shown_and_killed() {
    let api = start().await;
    let body = json!({
        "templateID": "base", "timeout": 120, "metadata": {"k": "v"}, "envVars": {"A": "1"},
        "allow_internet_access": true, "secure": true,
    });
    let made = api.call("POST", "/v2/sandboxes", body).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    let id = made["sandboxID"].as_str().unwrap();
    assert!(id.starts_with('i') && id.bytes().all(|b| b.is_ascii_alphanumeric()));
    assert_eq!(made["templateID"], "base");
    assert_eq!(made["domain"], Value::Null);
    assert_ne!(made["envdAccessToken"], made["trafficAccessToken"]);

    let detail = api
        .call("GET", &format!("/sandboxes/{id}"), Value::Null)
        .await;
    assert_eq!(detail.status, 200);
    let detail = detail.json();
    assert_eq!(detail["state"], "running");
    assert_eq!(detail["metadata"], json!({"k": "v"}));
    assert_eq!(detail["startedAt"], "2023-11-14T22:13:20Z");
    assert_eq!(detail["endAt"], "2023-11-14T22:15:20Z");
    assert_eq!(
        (&detail["cpuCount"], &detail["memoryMB"]),
        (&json!(1), &json!(512))
    );
    assert_eq!(detail["envdAccessToken"], made["envdAccessToken"]);
    assert_eq!(
        detail["allowInternetAccess"], false,
        "the operator gives none"
    );
    assert_eq!(
        detail["lifecycle"],
        json!({"autoResume": false, "onTimeout": "kill"})
    );

    let path = format!("/sandboxes/{id}");
    assert_eq!(api.call("DELETE", &path, Value::Null).await.status, 204);
    for method in ["DELETE", "GET"] {
        let gone = api.call(method, &path, Value::Null).await.error();
        let words = format!("Sandbox \"{id}\" doesn't exist or you don't have access to it");
        assert_eq!(gone, (404, words));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_another_tenants_is_not_there() {
    let api = start().await;
    let id = api.create(json!({})).await.id;
    for (method, path, body) in [
        ("GET", format!("/sandboxes/{id}"), Value::Null),
        ("DELETE", format!("/sandboxes/{id}"), Value::Null),
        (
            "POST",
            format!("/sandboxes/{id}/connect"),
            json!({"timeout": 1}),
        ),
        ("POST", format!("/v2/sandboxes/{id}/connect"), json!({})),
        (
            "POST",
            format!("/sandboxes/{id}/timeout"),
            json!({"timeout": 1}),
        ),
        ("POST", format!("/sandboxes/{id}/refreshes"), json!({})),
        ("POST", format!("/sandboxes/{id}/pause"), json!({})),
        ("POST", format!("/sandboxes/{id}/resume"), json!({})),
        ("GET", format!("/sandboxes/{id}/metrics"), Value::Null),
        ("PUT", format!("/sandboxes/{id}/network"), json!({})),
        ("POST", format!("/sandboxes/{id}/fork"), json!({})),
    ] {
        let answer = api.call_as(1, method, &path, body).await;
        assert_eq!(answer.error().0, 404, "{method} {path}");
    }
    let listed = api.call_as(1, "GET", "/v2/sandboxes", Value::Null).await;
    assert_eq!(listed.json(), json!([]));
    let own = api
        .call("GET", &format!("/sandboxes/{id}"), Value::Null)
        .await;
    assert_eq!(own.status, 200, "nothing of that did anything");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_the_other_api_are_no_sandboxes() {
    let api = start().await;
    let key = sandbox_core::SessionKey::new("a".parse().unwrap(), "iabc".parse().unwrap());
    let lease = api.sessions.lease(&key).await.unwrap();
    drop(lease);
    let answer = api.call("GET", "/sandboxes/iabc", Value::Null).await;
    assert_eq!(answer.error().0, 404);
    let headers = [("e2b-sandbox-id", "iabc"), ("e2b-sandbox-port", "49983")];
    let answer = api.send("GET", "/health", &headers, "").await;
    assert_eq!(
        answer.error(),
        (502, "The sandbox was not found".to_owned())
    );
}

#[tokio::test]
async fn only_a_key_opens_the_control_plane() {
    let api = start().await;
    let wrong = format!("e2b_{}", "0".repeat(40));
    for headers in [
        &[][..],
        &[("x-api-key", "")],
        &[("x-api-key", wrong.as_str())],
    ] {
        for (method, path) in [
            ("POST", "/sandboxes"),
            ("GET", "/v2/sandboxes"),
            ("GET", "/sandboxes/iabc"),
            ("GET", "/nothing"),
            ("POST", "/v3/templates"),
        ] {
            let answer = api.send(method, path, headers, "{}").await;
            assert_eq!(answer.error().0, 401, "{method} {path}");
        }
    }
    assert_eq!(api.send("GET", "/health", &[], "").await.status, 200);
}

#[tokio::test]
async fn what_is_wrong_or_not_there_is_said() {
    let api = start().await;
    let long = json!({"templateID": "base", "timeout": 3601});
    for (body, status, words) in [
        (
            json!({"templateID": "nope"}),
            404,
            "template 'nope' not found",
        ),
        (json!({}), 400, "templateID"),
        (long, 400, "Timeout cannot be greater than 3600 seconds"),
        (json!({"templateID": "base", "timeout": -1}), 400, "timeout"),
        (
            json!({"templateID": "base", "metadata": {"a": 1}}),
            400,
            "expected a string",
        ),
        (
            json!({"templateID": "base", "envVars": {"A=B": "1"}}),
            400,
            "envVars",
        ),
        (
            json!({"templateID": "base", "envVars": {"A": "\0"}}),
            400,
            "NUL",
        ),
        (
            json!({"templateID": "base", "mcp": {"x": {"y": "z"}}}),
            501,
            "`mcp`",
        ),
        (
            json!({"templateID": "base", "volumeMounts": [{"name": "a", "path": "/b"}]}),
            501,
            "`volumeMounts`",
        ),
        (
            json!({"templateID": "base", "network": {"allowOut": ["1.1.1.1"]}}),
            501,
            "`network.allowOut`",
        ),
        (
            json!({"templateID": "base", "newer": {"on": true}}),
            501,
            "`newer`",
        ),
    ] {
        let shown = body.to_string();
        let (got, said) = api.call("POST", "/v2/sandboxes", body).await.error();
        assert_eq!(got, status, "{shown}: {said}");
        assert!(said.contains(words), "{shown}: {said}");
    }
    for (method, path, status) in [
        ("POST", "/v3/templates", 501),
        ("GET", "/volumes", 501),
        ("GET", "/secrets", 501),
        ("GET", "/snapshots", 501),
        ("GET", "/nothing", 404),
        ("PATCH", "/v2/sandboxes", 405),
        ("GET", "/v2/sandboxes?limit=0", 400),
        ("GET", "/v2/sandboxes?limit=101", 400),
        ("GET", "/v2/sandboxes?limit=x", 400),
        ("GET", "/v2/sandboxes?order=up", 400),
        ("GET", "/v2/sandboxes?state=asleep", 400),
        ("GET", "/v2/sandboxes?metadata=k", 400),
        ("GET", "/v2/sandboxes?nextToken=x", 400),
        ("GET", "/v2/sandboxes?startedAfter=soon", 400),
    ] {
        let answer = api.call(method, path, Value::Null).await;
        assert_eq!(answer.error().0, status, "{method} {path}");
    }
    let not_json = api
        .send("POST", "/sandboxes", &[("x-api-key", &api.keys[0])], "{")
        .await;
    assert_eq!(not_json.error().0, 400);
    let large = vec![b' '; (1 << 20) + 1];
    let large = api
        .send("POST", "/sandboxes", &[("x-api-key", &api.keys[0])], large)
        .await;
    assert_eq!(large.error().0, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_is_what_the_operator_says() {
    let api = start().await;
    let id = api.create(json!({"templateID": "small"})).await.id;
    let detail = api
        .call("GET", &format!("/sandboxes/{id}"), Value::Null)
        .await
        .json();
    assert_eq!(
        (&detail["templateID"], &detail["memoryMB"]),
        (&json!("small"), &json!(300))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn time_ends_a_sandbox_and_can_be_moved() {
    let api = start().await;
    let sandbox = api.create(json!({"timeout": 60})).await;
    let path = format!("/sandboxes/{}", sandbox.id);
    let ends = async || api.call("GET", &path, Value::Null).await.json()["endAt"].clone();
    let timeout = |seconds: u32| json!({"timeout": seconds});
    let set = api
        .call("POST", &format!("{path}/timeout"), timeout(120))
        .await;
    assert_eq!(set.status, 204);
    assert_eq!(ends().await, "2023-11-14T22:15:20Z");
    // Connecting never cuts it, and a refresh does not either.
    let connected = api
        .call("POST", &format!("{path}/connect"), timeout(10))
        .await;
    assert_eq!(connected.status, 200);
    let refresh = format!("{path}/refreshes");
    assert_eq!(
        api.call("POST", &refresh, json!({"duration": 5}))
            .await
            .status,
        204
    );
    assert_eq!(ends().await, "2023-11-14T22:15:20Z");
    let connected = api
        .call("POST", &format!("/v2{path}/connect"), timeout(200))
        .await;
    assert_eq!(connected.json()["envdAccessToken"], sandbox.envd);
    assert_eq!(ends().await, "2023-11-14T22:16:40Z");
    let too_long = api
        .call("POST", &format!("{path}/timeout"), timeout(3601))
        .await;
    assert_eq!(too_long.error().0, 400);

    api.clock.advance(Duration::from_secs(200));
    assert_eq!(api.call("GET", &path, Value::Null).await.error().0, 404);
    assert_eq!(api.call("DELETE", &path, Value::Null).await.error().0, 404);
    let health = api.to(&sandbox, "49983", "GET", "/health", "").await;
    assert_eq!(
        health.error(),
        (502, "The sandbox was not found".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_twice_is_one_sandbox() {
    let api = start().await;
    let key = api.keys[0].clone();
    let headers = [("x-api-key", key.as_str()), ("idempotency-key", "abc-1")];
    let body = json!({"templateID": "base", "metadata": {"n": "1"}}).to_string();
    let first = api
        .send("POST", "/v2/sandboxes", &headers, body.clone())
        .await;
    let second = api.send("POST", "/v2/sandboxes", &headers, body).await;
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (201, 201));
    assert_eq!(first.json(), second.json());
    let other = json!({"templateID": "base", "metadata": {"n": "2"}}).to_string();
    let other = api.send("POST", "/v2/sandboxes", &headers, other).await;
    assert_eq!(other.error().0, 409);
    let headers = [
        ("x-api-key", api.keys[1].as_str()),
        ("idempotency-key", "abc-1"),
    ];
    let body = json!({"templateID": "base"}).to_string();
    let theirs = api.send("POST", "/v2/sandboxes", &headers, body).await;
    assert_ne!(theirs.json()["sandboxID"], first.json()["sandboxID"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_comes_in_pages_that_miss_nothing() {
    let api = start().await;
    let mut made = Vec::new();
    for n in 0..4 {
        made.push(
            api.create(json!({"metadata": {"n": n.to_string(), "all": "x"}}))
                .await
                .id,
        );
        api.clock.advance(Duration::from_secs(1));
    }
    let ids = |answer: &crate::support::Answer| -> Vec<String> {
        let list = answer.json();
        let list = list.as_array().unwrap().iter();
        list.map(|it| it["sandboxID"].as_str().unwrap().to_owned())
            .collect()
    };
    let newest_first: Vec<String> = made.iter().rev().cloned().collect();
    let all = api
        .call("GET", "/v2/sandboxes?metadata=all%3Dx", Value::Null)
        .await;
    assert_eq!(ids(&all), newest_first);
    assert!(!all.headers.contains_key("x-next-token"));
    let mut path = "/v2/sandboxes?limit=3&order=asc".to_owned();
    let first = api.call("GET", &path, Value::Null).await;
    assert_eq!(ids(&first), made[..3]);
    // One that is gone meanwhile shifts nothing.
    api.call("DELETE", &format!("/sandboxes/{}", made[0]), Value::Null)
        .await;
    path += "&nextToken=";
    path += first.headers["x-next-token"].to_str().unwrap();
    let second = api.call("GET", &path, Value::Null).await;
    assert_eq!(ids(&second), made[3..]);
    assert!(!second.headers.contains_key("x-next-token"));
    let one = api
        .call("GET", "/v2/sandboxes?metadata=n%3D2%26all%3Dx", Value::Null)
        .await;
    assert_eq!(ids(&one), made[2..3]);
    let v1 = api.call("GET", "/sandboxes", Value::Null).await;
    assert_eq!(ids(&v1), newest_first[..3]);
    let path = "/v2/sandboxes?startedAfter=2023-11-14T22:13:22%2B00:00&order=asc";
    assert_eq!(ids(&api.call("GET", path, Value::Null).await), made[2..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_keeps_the_files() {
    let api = start().await;
    let sandbox = api
        .create(json!({"autoPause": true, "autoResume": {"enabled": true}}))
        .await;
    api.shell(&sandbox, "echo kept > /workspace/kept").await;
    let path = format!("/sandboxes/{}", sandbox.id);
    let pause = format!("{path}/pause");
    assert_eq!(
        api.call("POST", &pause, json!({"memory": false}))
            .await
            .status,
        204
    );
    assert_eq!(api.call("POST", &pause, json!({})).await.error().0, 409);
    let detail = api.call("GET", &path, Value::Null).await.json();
    assert_eq!(
        (&detail["state"], &detail["pauseMode"]),
        (&json!("paused"), &json!("filesystem"))
    );
    let paused = api
        .call("GET", "/v2/sandboxes?state=paused", Value::Null)
        .await;
    assert_eq!(paused.json().as_array().unwrap().len(), 1);
    let running = api.call("GET", "/sandboxes", Value::Null).await;
    assert_eq!(running.json(), json!([]));
    // A look does not resume it, and who has no token does not.
    let health = api.to(&sandbox, "49983", "GET", "/health", "").await;
    assert_eq!(health.error().0, 502);
    let headers = [
        ("e2b-sandbox-id", sandbox.id.as_str()),
        ("e2b-sandbox-port", "49983"),
    ];
    assert_eq!(api.send("GET", "/envs", &headers, "").await.error().0, 401);
    assert_eq!(
        api.call("GET", &path, Value::Null).await.json()["state"],
        "paused"
    );
    let connected = api
        .call("POST", &format!("{path}/connect"), json!({"timeout": 60}))
        .await;
    assert_eq!(connected.status, 201);
    let kept = api
        .to(&sandbox, "49983", "GET", "/files?path=/workspace/kept", "")
        .await;
    assert_eq!(kept.text(), "kept\n");
    // At the end of its time it pauses, and traffic resumes it, as was asked for.
    api.clock.advance(Duration::from_secs(61));
    let state = async || api.call("GET", &path, Value::Null).await.json()["state"].clone();
    for _ in 0..200 {
        if state().await == "paused" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(state().await, "paused");
    let kept = api
        .to(&sandbox, "49983", "GET", "/files?path=kept", "")
        .await;
    assert_eq!((kept.status.as_u16(), kept.text()), (200, "kept\n"));
    assert_eq!(state().await, "running");
    let resumed = api.call("POST", &format!("{path}/resume"), json!({})).await;
    assert_eq!(resumed.error().0, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_too_much_is_told_when_to_ask_again() {
    let api = start_with(Setup {
        max_sessions: 1,
        admission: AdmissionSettings {
            requests_per_second: 1,
            request_burst: 3,
            ..AdmissionSettings::default()
        },
        ..Setup::default()
    })
    .await;
    let body = json!({"templateID": "base"});
    assert_eq!(
        api.call("POST", "/v2/sandboxes", body.clone()).await.status,
        201
    );
    let full = api.call("POST", "/v2/sandboxes", body).await;
    assert_eq!(full.error().0, 429);
    assert_eq!(
        full.headers["should-retry"], "false",
        "waiting is of no use"
    );
    api.call("GET", "/v2/sandboxes", Value::Null).await;
    let fast = api.call("GET", "/v2/sandboxes", Value::Null).await;
    assert_eq!(fast.error().0, 429);
    assert_eq!(fast.headers["should-retry"], "true");
    assert_eq!(fast.headers["retry-after"], "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_of_now() {
    let api = start().await;
    let path = format!("/sandboxes/{}/metrics", api.create(json!({})).await.id);
    let now = api.call("GET", &path, Value::Null).await.json();
    assert_eq!(now.as_array().unwrap().len(), 1);
    assert_eq!(now[0]["memTotal"], 512 << 20);
    for field in [
        "timestamp",
        "timestampUnix",
        "cpuUsedPct",
        "memUsed",
        "memCache",
        "diskUsed",
        "diskTotal",
    ] {
        assert!(!now[0][field].is_null(), "{field}");
    }
    let before = api
        .call("GET", &format!("{path}?start=1&end=2"), Value::Null)
        .await;
    assert_eq!(before.json(), json!([]));
    let mixed = api
        .call("GET", &format!("{path}?start=2&end=1"), Value::Null)
        .await;
    assert_eq!(mixed.error().0, 400);
}
