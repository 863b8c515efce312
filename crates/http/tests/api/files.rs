//! The routes of files and search.

use serde_json::{Value, json};

use crate::support::{Answer, FILE, Service, start};

async fn call(service: &Service, route: &str, mut body: Value) -> Answer {
    body["session_id"] = json!("s");
    service.post(route, body).await
}

#[tokio::test]
async fn lines_are_read_with_the_defaults_of_the_contract() {
    let service = start().await;
    let read = call(&service, "/read", json!({"path": "a"})).await;
    assert_eq!(
        read.json(),
        json!({
            "content": "line\n", "path": "a", "offset": 1, "lines": 1, "total_lines": 2000,
            "truncated": true, "size_bytes": 4 << 20,
        })
    );
    for field in ["offset", "limit"] {
        let answer = call(&service, "/read", json!({"path": "a", field: 0})).await;
        assert_eq!(answer.problem(), (400, "invalid_request".into()));
        assert!(answer.detail().contains(field));
    }
    let missing = call(&service, "/read", json!({"path": "missing"})).await;
    assert_eq!(missing.problem(), (404, "not_found".into()));
    let whose = service.post("/read", json!({"path": "a"})).await;
    assert!(
        whose.detail().contains("`session_id`"),
        "{}",
        whose.detail()
    );
}

#[tokio::test]
async fn files_are_written_edited_moved_and_deleted() {
    let service = start().await;
    let body = json!({"path": "a", "content": "aGk=", "encoding": "base64", "mode": "0600"});
    let written = call(&service, "/write", body).await;
    assert_eq!(
        written.json(),
        json!({"path": "a", "size_bytes": 2, "created": true})
    );
    assert_eq!(
        service.backend.guest.written.lock().unwrap()["a"],
        (b"hi".to_vec(), 0o600)
    );
    let edit = json!({"path": "a", "old_string": "twice", "new_string": ""});
    let several = call(&service, "/edit", edit).await;
    assert_eq!(several.problem(), (409, "several_matches".into()));
    assert_eq!(several.detail(), "the text is there 2 times");
    let edit = json!({"path": "a", "old_string": "twice", "new_string": "", "replace_all": true});
    let edited = call(&service, "/edit", edit).await;
    assert_eq!(edited.json(), json!({"path": "a", "replacements": 2}));
    let empty = json!({"path": "a", "old_string": "", "new_string": "x"});
    assert_eq!(call(&service, "/edit", empty).await.status, 400);
    let moved = call(
        &service,
        "/move",
        json!({"source": "a", "destination": "b"}),
    )
    .await;
    assert_eq!(moved.json(), json!({"path": "a>b:false"}));
    let full = call(&service, "/delete", json!({"path": "d"})).await;
    assert_eq!(full.problem(), (409, "directory_not_empty".into()));
    let deleted = call(&service, "/delete", json!({"path": "d", "recursive": true})).await;
    assert_eq!(
        (deleted.status.as_u16(), deleted.json()),
        (200, json!({"path": "d"}))
    );
}

#[tokio::test]
async fn a_listing_shows_names_that_are_not_text() {
    let service = start().await;
    let listed = call(&service, "/ls", json!({})).await;
    assert_eq!(
        listed.json(),
        json!({
            "path": ".", "truncated": false,
            "entries": [
                {
                    "name": "a\u{fffd}", "name_base64": "Yf8=", "path": "a\u{fffd}", "kind": "file",
                    "size_bytes": 3, "mode": "0640", "modified": "2023-11-14T22:13:20.005Z",
                },
                {
                    "name": "l", "path": "l", "kind": "symlink", "size_bytes": 0, "mode": "0777",
                    "symlink_target": "a",
                },
            ],
        })
    );
}

#[tokio::test]
async fn searches_pass_on_what_they_were_asked() {
    let service = start().await;
    let body = json!({
        "pattern": "--pre", "path": "d", "glob": "*.py", "before": 2, "output": "count",
        "ignore_case": true, "literal": true, "multiline": true, "hidden": true, "no_ignore": true,
    });
    assert_eq!(
        call(&service, "/grep", body).await.json(),
        json!({
            "matches": [{
                "path": "d", "line": 1000, "column": 2, "text": "--pre",
                "before": ["*.py"], "after": ["10000"],
            }],
            "files": [{"path": "f", "count": 3}], "truncated": true, "timed_out": true,
        })
    );
    let plain = call(&service, "/grep", json!({"pattern": "x"}))
        .await
        .json();
    assert_eq!(
        (&plain["files"], &plain["truncated"]),
        (&json!([{"path": "f"}]), &json!(false))
    );
    let bad = call(&service, "/grep", json!({"pattern": "("})).await;
    assert_eq!(bad.problem(), (400, "invalid_pattern".into()));
    for (route, field, value) in [
        ("/grep", "max_matches", 0),
        ("/grep", "max_matches", 10_001),
        ("/grep", "before", 101),
        ("/glob", "max_results", 0),
    ] {
        let answer = call(&service, route, json!({"pattern": "x", field: value})).await;
        assert_eq!(answer.problem(), (400, "invalid_request".into()));
        assert!(answer.detail().contains(field));
    }
    let found = call(&service, "/glob", json!({"pattern": "*", "hidden": true})).await;
    assert_eq!(
        found.json(),
        json!({"paths": ["*", ".", "1000"], "truncated": true})
    );
}

async fn read_binary(service: &Service, headers: &[(&str, &str)]) -> Answer {
    let body = json!({"path": "a.png", "session_id": "s"});
    service.post_with("/read_binary", headers, body).await
}

#[tokio::test]
async fn bytes_come_with_their_type_and_cannot_act_as_a_page() {
    let service = start().await;
    let whole = read_binary(&service, &[]).await;
    assert_eq!((whole.status.as_u16(), whole.bytes.as_ref()), (200, FILE));
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-length", "10"),
        ("accept-ranges", "bytes"),
        ("etag", "\"v1\""),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox"),
    ] {
        assert_eq!(whole.header(name), value, "{name}");
    }
    let missing = service
        .post("/read_binary", json!({"path": "b", "session_id": "s"}))
        .await;
    assert_eq!(missing.problem(), (404, "not_found".into()));
}

#[tokio::test]
async fn a_range_is_the_part_that_it_names() {
    let service = start().await;
    for (range, part, content_range) in [
        ("bytes=2-4", &FILE[2..5], "bytes 2-4/10"),
        ("bytes=7-", &FILE[7..], "bytes 7-9/10"),
        ("bytes=7-99", &FILE[7..], "bytes 7-9/10"),
        ("bytes=-3", &FILE[7..], "bytes 7-9/10"),
        ("bytes=-30", FILE, "bytes 0-9/10"),
    ] {
        let answer = read_binary(&service, &[("range", range)]).await;
        assert_eq!(
            (answer.status.as_u16(), answer.bytes.as_ref()),
            (206, part),
            "{range}"
        );
        assert_eq!(answer.header("content-range"), content_range);
        assert_eq!(answer.header("content-length"), part.len().to_string());
    }
    let beyond = read_binary(&service, &[("range", "bytes=10-")]).await;
    assert_eq!(beyond.problem(), (416, "range_not_satisfiable".into()));
    assert_eq!(beyond.header("content-range"), "bytes */10");
    let several = read_binary(&service, &[("range", "bytes=0-1,3-4")]).await;
    assert_eq!(
        (several.status.as_u16(), several.bytes.as_ref()),
        (200, FILE)
    );
}

#[tokio::test]
async fn a_version_that_the_client_has_is_not_sent_again() {
    let service = start().await;
    let same = read_binary(&service, &[("if-none-match", "\"v1\"")]).await;
    assert_eq!((same.status.as_u16(), same.bytes.len()), (304, 0));
    assert_eq!(same.header("etag"), "\"v1\"");
    let other = read_binary(&service, &[("if-none-match", "\"v0\"")]).await;
    assert_eq!(other.status, 200);
    let stale = [("range", "bytes=2-4"), ("if-range", "\"v0\"")];
    let whole = read_binary(&service, &stale).await;
    assert_eq!((whole.status.as_u16(), whole.bytes.as_ref()), (200, FILE));
}

#[tokio::test]
async fn a_client_that_wants_json_gets_base64() {
    let service = start().await;
    let answer = read_binary(&service, &[("accept", "application/json")]).await;
    assert_eq!(
        answer.json(),
        json!({
            "path": "a.png", "content_base64": "MDEyMzQ1Njc4OQ==", "size_bytes": 10,
            "content_type": "image/png", "etag": "\"v1\"",
        })
    );
}
