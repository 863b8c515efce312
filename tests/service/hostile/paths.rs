//! Methods, paths and query strings that no route has.

use std::collections::BTreeSet;

use serde_json::json;

use super::{assert_nothing_changed, assert_problem, assert_works};
use crate::{
    document::Document,
    support::{Service, until},
};

#[test]
fn every_route_answers_every_method() {
    let service = Service::start();
    let document = Document::of(&service);
    let operations = document.operations();
    let paths: BTreeSet<String> = operations.iter().map(|one| one.filled()).collect();
    for path in paths {
        let of_path: Vec<_> = operations
            .iter()
            .filter(|one| one.filled() == path)
            .collect();
        for method in ["HEAD", "OPTIONS", "PUT", "PATCH", "TRACE"] {
            let what = format!("{method} {path}");
            if of_path.iter().any(|one| one.method == method) {
                continue;
            }
            let answer = service.client().send(method, &path, &[], None);
            let get = of_path.iter().find(|one| one.method == "GET");
            match (method, get) {
                ("HEAD", Some(get)) => {
                    let as_get = service.get(&path);
                    assert!(get.documents(answer.status), "{what}: {}", answer.status);
                    assert_eq!(answer.status, as_get.status, "{what}");
                    assert_eq!(answer.header("content-type"), as_get.header("content-type"));
                    assert!(answer.bytes.is_empty(), "{what}");
                }
                _ => {
                    assert_eq!(answer.status, 405, "{what}: {}", answer.body);
                    for one in &of_path {
                        let allowed = answer.header("allow");
                        assert!(allowed.contains(&one.method), "{what}: {allowed}");
                    }
                    if method != "HEAD" {
                        assert_problem(&answer, &what);
                    }
                }
            }
        }
    }
    // GET /languages asks a sandbox, which ends after it.
    until("no session is left", || {
        service.get("/sessions").body["sessions"] == json!([])
    });
    assert_works(&service);
}

#[test]
fn encoded_slashes_and_dots_lead_nowhere() {
    let service = Service::start();
    assert_works(&service);
    for path in [
        "/sessions/default/%2e%2e",
        "/sessions/..%2fdefault/after",
        "/sessions/default%2Fafter/after",
        "/sessions/default/after%2F",
        "/sessions/default/after%00",
        "/sessions/default/%ff%fe",
        "/sessions/default/%",
        "/sessions/default/after%0d%0aX-Injected:%201",
        "/sessions/default/after%20",
        "/sessions/%64efault%5c/after",
        "/sessions/default/;after",
    ] {
        for method in ["GET", "DELETE"] {
            let answer = service.client().send(method, path, &[], None);
            assert_eq!(answer.status, 400, "{method} {path}: {}", answer.body);
            assert_problem(&answer, path);
            assert_eq!(answer.header("x-injected"), "");
        }
    }
    for path in [
        "//sessions",
        "/sessions/",
        "/sessions//after",
        "/sessions/default/after/",
        "/v1/sandbox/../sessions",
        "/%73essions",
        "/v1/sandbox%2fsessions",
        "/healthz/..",
    ] {
        let answer = service.get(path);
        let refused = answer.status == 404 || answer.status == 400;
        assert!(refused, "{path}: {} {}", answer.status, answer.body);
        assert_problem(&answer, path);
    }
    // The same id, written in another way.
    let answer = service.get("/sessions/default/%61fter");
    assert_eq!(
        (answer.status, &answer.body["session_id"]),
        (200, &json!("after"))
    );
    assert_works(&service);
}

#[test]
fn query_strings_are_bounded_and_known() {
    let service = Service::start();
    for (query, status) in [
        ("no_such_key=1", 400),
        ("limit=1&limit=2", 400),
        ("limit=1e308", 400),
        ("limit=-0", 400),
        ("limit=0", 400),
        ("limit=1001", 400),
        ("limit=18446744073709551616", 400),
        ("limit=%00", 400),
        ("tenant_id=%ff", 400),
        ("tenant_id=..%2f..", 400),
        ("cursor=%f0%9f%a6%80", 400),
        ("cursor=", 400),
        ("limit[]=1", 400),
        ("state=%00", 200),
        ("backend=%ff", 200),
        ("limit=%31", 200),
        ("&&&", 200),
    ] {
        let answer = service.get(&format!("/sessions?{query}"));
        // What cannot be in the set is refused or found in no session.
        let right = answer.status == status || (status == 200 && answer.status == 400);
        assert!(right, "{query}: {} {}", answer.status, answer.body);
        if answer.status != 200 {
            assert_problem(&answer, query);
        }
    }
    let many: String = (0..3000).map(|i| format!("k{i}=v&")).collect();
    let answer = service.get(&format!("/sessions?{many}"));
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.bytes.len() < 2048);
    assert_nothing_changed(&service);
    assert_works(&service);
}
