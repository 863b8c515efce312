//! Bodies that are not what they say, sent to every route that takes JSON.

use serde_json::{Map, Value, json};

use super::{assert_nothing_changed, assert_problem, assert_works, post, with_raw};
use crate::{
    document::{Document, Operation},
    support::Service,
};

/// Every route with a JSON body, with the smallest body that it takes.
fn for_each_route(
    service: &Service,
    mut check: impl FnMut(&Operation, &Document, &Map<String, Value>),
) {
    let document = Document::of(service);
    let mut checked = 0;
    for operation in document.operations() {
        if let Some(schema) = document.body(&operation)
            && operation.method == "POST"
        {
            check(&operation, &document, &document.smallest(schema));
            checked += 1;
        }
    }
    assert!(checked >= 11, "{checked}");
}

/// A route may look for what its path names before it reads the body.
fn refused_as(operation: &Operation, status: u16, expected: u16) -> bool {
    status == expected || (operation.has_path_parameters() && status == 404)
}

#[test]
fn what_is_not_a_json_object_is_refused_by_every_route() {
    let service = Service::start();
    for_each_route(&service, |operation, _, smallest| {
        let body = Value::Object(smallest.clone()).to_string();
        let name = smallest.keys().next().cloned().unwrap_or("x".into());
        let mut bodies: Vec<(&str, Vec<u8>)> = vec![
            ("empty", Vec::new()),
            ("not JSON", b"code=1".to_vec()),
            ("an array", b"[]".to_vec()),
            ("null", b"null".to_vec()),
            ("a number", b"1e308".to_vec()),
            ("cut short", body.as_bytes()[..body.len() - 1].to_vec()),
            ("two values", format!("{body}{body}").into_bytes()),
            ("a byte order mark", format!("\u{feff}{body}").into_bytes()),
            (
                "UTF-16",
                body.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            ),
            ("deep arrays", "[".repeat(100_000).into_bytes()),
            ("deep objects", r#"{"a":"#.repeat(100_000).into_bytes()),
            (
                "deep in a member",
                with_raw(smallest, &name, "[".repeat(100_000).as_bytes()),
            ),
            (
                "an unknown member",
                with_raw(smallest, "no_such_member", b"1"),
            ),
            ("many members", many_members()),
        ];
        for (what, raw) in [
            ("invalid UTF-8", &b"\"a\xff\""[..]),
            ("an overlong NUL", b"\"a\xc0\x80\""),
            ("a surrogate in UTF-8", b"\"a\xed\xa0\x80\""),
            ("a lone surrogate", br#""a\ud800""#),
            ("surrogates the wrong way", br#""\udc00\ud800""#),
            ("a raw NUL", b"\"a\0\""),
            ("a raw newline", b"\"a\n\""),
            ("an unknown escape", br#""\x41""#),
            ("NaN", b"NaN"),
            ("Infinity", b"-Infinity"),
            ("1e400", b"1e400"),
            ("a leading zero", b"01"),
            ("a comment", b"1/**/"),
        ] {
            bodies.push((what, with_raw(smallest, &name, raw)));
        }
        if smallest.contains_key(&name) {
            let twice = format!("{{{}:{},{}", json!(name), smallest[&name], &body[1..]);
            bodies.push(("a member twice", twice.into_bytes()));
        }
        for (what, body) in bodies {
            let what = format!("{} with {what}", operation.path);
            let answer = post(&service, &operation.filled(), &[], &body);
            assert!(
                refused_as(operation, answer.status, 400),
                "{what}: {} {}",
                answer.status,
                answer.body
            );
            assert_problem(&answer, &what);
            assert!(answer.bytes.len() < 2048, "{what}: {}", answer.bytes.len());
        }
    });
    assert_nothing_changed(&service);
    assert_works(&service);
}

/// A map that takes any name would be large in memory before its own bound is looked at.
fn many_members() -> Vec<u8> {
    let members: Vec<String> = (0..1_000_000).map(|i| format!("\"V{i}\":\"\"")).collect();
    format!(r#"{{"env":{{{}}}}}"#, members.join(",")).into_bytes()
}

#[test]
fn bodies_of_another_kind_are_refused_by_every_route() {
    let service = Service::start();
    for_each_route(&service, |operation, _, smallest| {
        let body = Value::Object(smallest.clone()).to_string();
        for headers in [
            ("content-type", "text/plain"),
            ("content-type", "application/x-www-form-urlencoded"),
            ("content-type", "multipart/form-data; boundary=x"),
            ("content-type", "application/jsonx"),
            ("content-type", ""),
            ("content-encoding", "gzip"),
            ("content-encoding", "identity, br"),
        ] {
            let what = format!("{} with {headers:?}", operation.path);
            let answer = post(&service, &operation.filled(), &[headers], body.as_bytes());
            assert!(
                refused_as(operation, answer.status, 415),
                "{what}: {}",
                answer.body
            );
            assert_problem(&answer, &what);
        }
    });
    assert_nothing_changed(&service);
    assert_works(&service);
}

#[test]
fn no_number_is_too_large_or_too_odd() {
    let service = Service::start();
    let mut fields = 0;
    for_each_route(&service, |operation, document, smallest| {
        let schema = document.body(operation).unwrap();
        for field in document.numbers(schema) {
            fields += 1;
            for raw in [
                "1e308",
                "-1e308",
                "1e-400",
                "-1",
                "9007199254740993",
                "18446744073709551615",
                "18446744073709551616",
                "-9223372036854775809",
                "123456789012345678901234567890123456789012345678901234567890",
                "0.5000000000000000000000000000000000000000000001",
                "-0",
                "-0.0",
                "\"1\"",
                "true",
                "[1]",
                "{}",
            ] {
                let body = with_raw(smallest, &field, raw.as_bytes());
                let what = format!("{} with {field}: {raw}", operation.path);
                let answer = post(&service, &operation.filled(), &[], &body);
                assert!(answer.status < 500, "{what}: {}", answer.body);
                assert!(
                    operation.documents(answer.status),
                    "{what}: {}",
                    answer.status
                );
                if answer.status >= 400 {
                    assert_problem(&answer, &what);
                }
                // None of these is a time, and no route takes a fraction of a thing.
                let never = matches!(raw, "1e308" | "-1e308" | "-1" | "true" | "[1]" | "{}");
                if never {
                    let refused = answer.status == 400 || answer.status == 404;
                    assert!(refused, "{what}: {}", answer.status);
                }
            }
        }
    });
    assert!(fields >= 8, "{fields}");
    assert_works(&service);
}

#[test]
fn names_given_twice_are_refused_at_every_depth() {
    let service = Service::start();
    for body in [
        r#"{"command": "echo 1", "command": "echo 2"}"#,
        r#"{"command": "echo $A", "env": {"A": "1", "A": "2"}}"#,
        r#"{"command": "echo $A", "env": {"A": "1", "\u0041": "2"}}"#,
    ] {
        let answer = post(&service, "/bash", &[], body.as_bytes());
        assert_eq!((answer.status, answer.code()), (400, "invalid_request"));
    }
    let body = r#"{"code": "1", "files": [{"path": "a", "content": "1", "path": "b"}]}"#;
    assert_eq!(post(&service, "/execute", &[], body.as_bytes()).status, 400);
    assert_nothing_changed(&service);
}

#[test]
fn text_may_be_anything_and_arrives_as_it_was() {
    let service = Service::start();
    let odd = "\u{0}\u{1}\u{7f}\u{feff}\u{202e}\u{fffd}\u{10ffff}é\u{301}\r\n";
    let body = json!({
        "session_id": "s", "stdin": odd,
        "code": "import sys; sys.stdout.write(repr(sys.stdin.buffer.read()))",
    });
    let answer = service.post("/execute", body);
    let expected: String = odd
        .bytes()
        .map(|byte| match byte {
            b'\r' => r"\r".to_owned(),
            b'\n' => r"\n".to_owned(),
            byte => format!("\\x{byte:02x}"),
        })
        .collect();
    assert_eq!(
        answer.stdout(),
        format!("b'{}'", expected.replace("\\x65\\x", "e\\x"))
    );
    for (route, body) in [
        ("/read", json!({"session_id": "s", "path": "a\u{0}b"})),
        (
            "/write",
            json!({"session_id": "s", "path": "a\u{0}b", "content": ""}),
        ),
        ("/ls", json!({"session_id": "s", "path": "\u{0}"})),
        (
            "/move",
            json!({"session_id": "s", "source": "a", "destination": "\u{0}"}),
        ),
        ("/bash", json!({"session_id": "s", "command": "echo \u{0}"})),
        (
            "/bash",
            json!({"session_id": "s", "command": "echo", "cwd": "\u{0}"}),
        ),
        (
            "/execute",
            json!({"session_id": "s", "code": "1", "args": ["\u{0}"]}),
        ),
        ("/execute", json!({"session_id": "\u{0}", "code": "1"})),
        ("/execute", json!({"tenant_id": "ａ", "code": "1"})),
    ] {
        let answer = service.post(route, body.clone());
        assert_eq!(answer.status, 400, "{route} {body}: {}", answer.body);
        assert_problem(&answer, route);
    }
    for (route, body) in [
        ("/grep", json!({"session_id": "s", "pattern": "\u{0}"})),
        ("/glob", json!({"session_id": "s", "pattern": "\u{0}"})),
        ("/execute", json!({"session_id": "s", "code": "\u{0}"})),
        (
            "/execute",
            json!({"session_id": "s", "code": "1", "language": "\u{0}"}),
        ),
    ] {
        let answer = service.post(route, body.clone());
        assert!(answer.status < 500, "{route} {body}: {}", answer.body);
    }
}
