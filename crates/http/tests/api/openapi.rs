//! The document that clients read: it is the file in the repository, and the page shows it.

use serde_json::Value;

use crate::support::start;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi.yaml");

#[test]
fn openapi_yaml_is_what_the_code_says() {
    let now = sandbox_http::openapi().to_yaml().unwrap();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(FILE, &now).unwrap();
    }
    let file = std::fs::read_to_string(FILE).unwrap();
    assert!(
        file == now,
        "openapi.yaml is not up to date: run `make openapi`"
    );
}

#[tokio::test]
async fn openapi_lists_every_route_of_the_contract_and_each_is_served() {
    let service = start().await;
    let document = service.get("/openapi.json").await.json();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let served = path
                .replace("{tenant_id}", "a")
                .replace("{session_id}", "b")
                .replace("{execution_id}", "c")
                .replace("{artifact_id}", &uuid::Uuid::nil().to_string())
                .replace("{process_id}", &uuid::Uuid::nil().to_string());
            let answer = service.send(&method.to_uppercase(), &served, &[], "").await;
            assert_ne!(answer.status, 405, "{method} {path}");
            if answer.status == 404 {
                let named = ["session", "run", "artifact", "process"];
                let detail = answer.detail();
                assert!(
                    named.iter().any(|name| detail.contains(name)),
                    "{method} {path}"
                );
            }
            routes.push(format!("{method} {path}"));
        }
    }
    routes.sort();
    assert_eq!(
        routes,
        [
            "delete /processes/{process_id}",
            "delete /sessions/{tenant_id}/{session_id}",
            "delete /sessions/{tenant_id}/{session_id}/contexts/{context}",
            "get /artifacts",
            "get /artifacts/{artifact_id}",
            "get /audit",
            "get /backends",
            "get /docs",
            "get /executions",
            "get /executions/{execution_id}",
            "get /executions/{execution_id}/events",
            "get /healthz",
            "get /languages",
            "get /metrics",
            "get /openapi.json",
            "get /processes",
            "get /processes/{process_id}",
            "get /processes/{process_id}/attach",
            "get /processes/{process_id}/output",
            "get /readyz",
            "get /sessions",
            "get /sessions/{tenant_id}/{session_id}",
            "get /sessions/{tenant_id}/{session_id}/archive",
            "get /sessions/{tenant_id}/{session_id}/contexts",
            "post /bash",
            "post /delete",
            "post /edit",
            "post /execute",
            "post /executions/{execution_id}/cancel",
            "post /glob",
            "post /grep",
            "post /ls",
            "post /move",
            "post /processes",
            "post /processes/{process_id}/signal",
            "post /processes/{process_id}/stdin",
            "post /read",
            "post /read_binary",
            "post /sessions/{tenant_id}/{session_id}",
            "post /sessions/{tenant_id}/{session_id}/contexts/{context}/restart",
            "post /sessions/{tenant_id}/{session_id}/copy",
            "post /sessions/{tenant_id}/{session_id}/pause",
            "post /sessions/{tenant_id}/{session_id}/resume",
            "post /write",
        ]
    );
}

#[tokio::test]
async fn openapi_bodies_refuse_unknown_fields_and_references_lead_somewhere() {
    let document = start().await.get("/openapi.json").await.json();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        if name.ends_with("Body") {
            assert_eq!(schema["additionalProperties"], false, "{name}");
        }
    }
    for methods in document["paths"].as_object().unwrap().values() {
        for operation in methods.as_object().unwrap().values() {
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let said = answer.get("description").or(answer.get("$ref"));
                assert!(said.is_some(), "{} {status}", operation["operationId"]);
            }
        }
    }
    let mut open = vec![&document];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                open.extend(members.values());
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn openapi_page_loads_nothing_from_elsewhere() {
    let service = start().await;
    let page = service.get("/v1/sandbox/docs").await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"));
    for (part, kind) in [
        ("docs/style.css", "text/css; charset=utf-8"),
        ("docs/script.js", "text/javascript; charset=utf-8"),
    ] {
        assert!(page.text().contains(part));
        // Relative to the page, so that it works under every prefix.
        let answer = service.get(&format!("/v1/sandbox/{part}")).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("content-type")),
            (200, kind)
        );
        assert!(!answer.text().contains("://"));
    }
    assert!(!page.text().contains("://"));
}
