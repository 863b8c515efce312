//! The OpenAPI document as the service gives it, for tests that go over every route.

use serde_json::{Map, Value, json};

use crate::support::Service;

pub struct Document(pub Value);

/// One method of one path.
pub struct Operation {
    pub method: String,
    pub path: String,
    pub spec: Value,
}

impl Document {
    pub fn of(service: &Service) -> Self {
        let answer = service.get("/openapi.json");
        assert_eq!(answer.status, 200);
        Self(answer.body)
    }

    pub fn operations(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for (path, methods) in self.0["paths"].as_object().unwrap() {
            for (method, spec) in methods.as_object().unwrap() {
                operations.push(Operation {
                    method: method.to_uppercase(),
                    path: path.clone(),
                    spec: spec.clone(),
                });
            }
        }
        assert!(operations.len() > 20);
        operations
    }

    /// What a `$ref` leads to, or the value itself.
    pub fn resolve<'a>(&'a self, mut value: &'a Value) -> &'a Value {
        while let Some(reference) = value["$ref"].as_str() {
            let pointer = reference.strip_prefix('#').unwrap();
            value = self.0.pointer(pointer).unwrap();
        }
        value
    }

    /// The schema of the operation's JSON body, if it takes one.
    pub fn body<'a>(&'a self, operation: &'a Operation) -> Option<&'a Value> {
        let content = self.resolve(&operation.spec["requestBody"]);
        let schema = &content["content"]["application/json"]["schema"];
        (!schema.is_null()).then(|| self.resolve(schema))
    }

    /// The required fields of an object, with values that have the right type.
    pub fn smallest(&self, schema: &Value) -> Map<String, Value> {
        let schema = self.resolve(schema);
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        required
            .iter()
            .map(|name| {
                let name = name.as_str().unwrap();
                let value = self.value(&schema["properties"][name]);
                (name.to_owned(), value)
            })
            .collect()
    }

    fn value(&self, schema: &Value) -> Value {
        let schema = self.resolve(schema);
        if let Some(example) = schema.get("example").or(schema.get("default")) {
            return example.clone();
        }
        if let Some(choices) = schema["enum"].as_array() {
            return choices[0].clone();
        }
        match types(schema).first().map(String::as_str) {
            Some("integer" | "number") => json!(1),
            Some("boolean") => json!(false),
            Some("array") => json!([]),
            Some("object") => Value::Object(self.smallest(schema)),
            _ => json!("x"),
        }
    }

    /// The members of a body that are numbers.
    pub fn numbers(&self, schema: &Value) -> Vec<String> {
        let properties = self.resolve(schema)["properties"].as_object().cloned();
        properties
            .into_iter()
            .flatten()
            .filter(|(_, property)| {
                let types = types(self.resolve(property));
                types
                    .iter()
                    .any(|kind| kind == "integer" || kind == "number")
            })
            .map(|(name, _)| name)
            .collect()
    }
}

fn types(schema: &Value) -> Vec<String> {
    match &schema["type"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(several) => several
            .iter()
            .map(|kind| kind.as_str().unwrap().to_owned())
            .collect(),
        _ => Vec::new(),
    }
}

impl Operation {
    /// The path with something in each parameter's place.
    pub fn filled(&self) -> String {
        let mut path = self.path.clone();
        while let (Some(open), Some(close)) = (path.find('{'), path.find('}')) {
            // An id of every kind.
            path.replace_range(open..=close, "00000000-0000-0000-0000-000000000000");
        }
        path
    }

    pub fn has_path_parameters(&self) -> bool {
        self.path.contains('{')
    }

    /// Whether the document says that this may be answered.
    pub fn documents(&self, status: u16) -> bool {
        let responses = self.spec["responses"].as_object().unwrap();
        responses.contains_key(&status.to_string()) || responses.contains_key("default")
    }
}
