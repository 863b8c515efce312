//! What holds for every route of the OpenAPI document, said in one place: the
//! refusals that a route may answer, the bounds of members by their name, examples.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::{
    Number,
    openapi::{
        OpenApi, Ref, RefOr, Response, ResponseBuilder, Schema,
        content::Content,
        path::{Operation, PathItem},
        schema::{Object, ObjectBuilder, SchemaType, Type},
    },
};

const MAX_ID_CHARS: usize = 128;
const MAX_CONTEXT_CHARS: usize = 64;
const ID_PATTERN: &str = "^[A-Za-z0-9_][A-Za-z0-9._-]*$";
const ENV_NAME_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
const MAX_ENV: usize = 1024;
const MAX_CODE_CHARS: usize = 1 << 20;
const SOMETHING_PATTERN: &str = r"\S";
const MIN_TIMEOUT: f64 = 0.001;
const MAX_TIMEOUT: f64 = 3600.0;

/// Requests and answers by method, path and status; a test runs the requests.
const EXAMPLES: &str = include_str!("contract/examples.json");

/// By route, such as `post /bash`; then `request`, or the answer's status.
type Examples = BTreeMap<String, BTreeMap<String, Value>>;

/// The document of the routes, completed.
pub(crate) fn complete(mut api: OpenApi) -> OpenApi {
    let examples: Examples = serde_json::from_str(EXAMPLES).unwrap_or_else(|error| {
        tracing::error!("the examples are not valid JSON: {error}");
        Examples::new()
    });
    for (path, item) in &mut api.paths.paths {
        for (method, operation) in operations(item) {
            name_refusals(operation);
            for parameter in operation.parameters.iter_mut().flatten() {
                if let RefOr::T(parameter) = parameter
                    && let Some(RefOr::T(schema)) = &mut parameter.schema
                {
                    bound(&parameter.name, schema);
                }
            }
            if let Some(examples) = examples.get(&format!("{method} {path}")) {
                show(operation, examples);
            }
        }
    }
    for schema in api
        .components
        .iter_mut()
        .flat_map(|all| all.schemas.values_mut())
    {
        bound_members(schema);
    }
    api
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    [
        ("get", &mut item.get),
        ("put", &mut item.put),
        ("post", &mut item.post),
        ("patch", &mut item.patch),
        ("delete", &mut item.delete),
    ]
    .into_iter()
    .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Puts the statuses of its refusals where a route says `default`.
fn name_refusals(operation: &mut Operation) {
    let responses = &mut operation.responses.responses;
    let Some(refusal) = responses.remove("default") else {
        return;
    };
    let mut statuses = vec![400, 401, 403, 429, 500, 503, 504];
    let has_body = operation.request_body.is_some();
    let names_something = operation.parameters.iter().flatten().any(|parameter| {
        matches!(parameter, RefOr::T(parameter)
            if parameter.parameter_in == utoipa::openapi::path::ParameterIn::Path)
    });
    if has_body {
        statuses.extend([408, 413, 415, 507]);
    }
    if has_body || names_something {
        statuses.extend([404, 409, 410, 422]);
    }
    for status in statuses {
        responses
            .entry(status.to_string())
            .or_insert_with(|| refusal_of(&refusal, status));
    }
}

/// The shared answer, but for those whose headers matter.
fn refusal_of(shared: &RefOr<Response>, status: u16) -> RefOr<Response> {
    let (header, about, kind) = match status {
        401 => ("WWW-Authenticate", "How to show who calls.", Type::String),
        429 | 503 => ("Retry-After", "Seconds to wait.", Type::Integer),
        _ => return shared.clone(),
    };
    let schema = ObjectBuilder::new().schema_type(kind).build();
    let header_value = utoipa::openapi::HeaderBuilder::new()
        .schema(Some(schema))
        .description(Some(about))
        .build();
    let what = match status {
        401 => "No token, or one that is not valid",
        429 => "A limit on sessions, runs or requests is reached",
        _ => "The service or its backend cannot serve now",
    };
    ResponseBuilder::new()
        .description(what)
        .header(header, header_value)
        .content(
            "application/problem+json",
            Content::new(Some(Ref::from_schema_name("Problem"))),
        )
        .build()
        .into()
}

fn show(operation: &mut Operation, examples: &BTreeMap<String, Value>) {
    for (of, example) in examples {
        let content = if of == "request" {
            match &mut operation.request_body {
                Some(RefOr::T(body)) => body.content.get_mut("application/json"),
                _ => None,
            }
        } else {
            match operation.responses.responses.get_mut(of) {
                Some(RefOr::T(response)) => response.content.get_mut("application/json"),
                _ => None,
            }
        };
        if let Some(RefOr::T(content)) = content {
            content.example = Some(example.clone());
        }
    }
}

fn bound_members(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    match schema {
        Schema::Object(object) => {
            for (name, member) in &mut object.properties {
                if let RefOr::T(member) = member {
                    bound(name, member);
                }
                bound_members(member);
            }
        }
        Schema::OneOf(all) => all.items.iter_mut().for_each(bound_members),
        Schema::AllOf(all) => all.items.iter_mut().for_each(bound_members),
        Schema::AnyOf(all) => all.items.iter_mut().for_each(bound_members),
        _ => {}
    }
}

/// Members of one name mean the same everywhere.
fn bound(name: &str, schema: &mut Schema) {
    let Schema::Object(object) = schema else {
        return;
    };
    match name {
        "tenant_id" | "session_id" | "execution_id" if is(object, &Type::String) => {
            object.min_length = Some(1);
            object.max_length = Some(MAX_ID_CHARS);
            object.pattern = Some(ID_PATTERN.into());
        }
        "context" if is(object, &Type::String) => {
            object.min_length = Some(1);
            object.max_length = Some(MAX_CONTEXT_CHARS);
            object.pattern = Some(ID_PATTERN.into());
        }
        "timeout_seconds" if is(object, &Type::Number) => {
            object.minimum = Some(Number::Float(MIN_TIMEOUT));
            object.maximum = Some(Number::Float(MAX_TIMEOUT));
        }
        "code" | "command" if is(object, &Type::String) && object.enum_values.is_none() => {
            object.min_length = Some(1);
            object.max_length = Some(MAX_CODE_CHARS);
            object.pattern = Some(SOMETHING_PATTERN.into());
        }
        "env" if is(object, &Type::Object) => {
            object.max_properties = Some(MAX_ENV);
            let names = ObjectBuilder::new()
                .schema_type(Type::String)
                .pattern(Some(ENV_NAME_PATTERN));
            object.property_names = Some(Box::new(names.build().into()));
        }
        _ => {}
    }
}

fn is(object: &Object, kind: &Type) -> bool {
    match &object.schema_type {
        SchemaType::Type(one) => one == kind,
        SchemaType::Array(several) => several.contains(kind),
        SchemaType::AnyValue => false,
    }
}
