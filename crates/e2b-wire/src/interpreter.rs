//! The code interpreter in a sandbox (template/server of e2b-dev/code-interpreter).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of `POST /execute`. No `Debug`: `env_vars` hold secrets.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execute {
    pub code: String,
    /// The context to run in; not together with `language`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// Runs in the default context of the language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// In the environment for this run alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<BTreeMap<String, String>>,
}

/// The body of `POST /contexts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewContext {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub id: String,
    pub language: String,
    pub cwd: String,
}

/// One line of the answer of `POST /execute`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// The first one.
    NumberOfExecutions {
        execution_count: u64,
    },
    Stdout {
        text: String,
        timestamp: Value,
    },
    Stderr {
        text: String,
        timestamp: Value,
    },
    Result(Box<Output>),
    Error {
        name: String,
        value: String,
        traceback: String,
    },
    Keepalive,
    /// The last one.
    EndOfExecution,
    #[serde(other)]
    Unknown,
}

/// What code showed, in each of the forms that it has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Output {
    /// The value of the code, rather than something that it displayed.
    pub is_main_result: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub svg: Option<String>,
    /// In base64, as all that is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub png: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jpeg: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pdf: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub javascript: Option<String>,
    /// A table, by columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<Value>,
    /// Forms that have no name here, by MIME type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<BTreeMap<String, Value>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(line: &Line, text: &str) {
        assert_eq!(serde_json::to_string(line).unwrap(), text);
        assert_eq!(&serde_json::from_str::<Line>(text).unwrap(), line);
    }

    #[test]
    fn lines_are_those_of_the_interpreters_server() {
        same(
            &Line::NumberOfExecutions { execution_count: 1 },
            r#"{"type":"number_of_executions","execution_count":1}"#,
        );
        same(
            &Line::Stdout {
                text: "hi\n".into(),
                timestamp: "2026-01-02T03:04:05Z".into(),
            },
            r#"{"type":"stdout","text":"hi\n","timestamp":"2026-01-02T03:04:05Z"}"#,
        );
        same(
            &Line::Result(Box::new(Output {
                is_main_result: true,
                text: Some("2".into()),
                ..Output::default()
            })),
            r#"{"type":"result","is_main_result":true,"text":"2"}"#,
        );
        same(
            &Line::Error {
                name: "ZeroDivisionError".into(),
                value: "division by zero".into(),
                traceback: "...".into(),
            },
            r#"{"type":"error","name":"ZeroDivisionError","value":"division by zero","traceback":"..."}"#,
        );
        same(&Line::Keepalive, r#"{"type":"keepalive"}"#);
        same(&Line::EndOfExecution, r#"{"type":"end_of_execution"}"#);
    }

    #[test]
    fn a_line_of_a_newer_server_is_no_error() {
        let line: Line = serde_json::from_str(r#"{"type":"progress"}"#).unwrap();
        assert_eq!(line, Line::Unknown);
    }

    #[test]
    fn what_the_sdks_send_is_read() {
        let text = r#"{"code":"1+1","context_id":null,"language":null,"env_vars":null}"#;
        let execute: Execute = serde_json::from_str(text).unwrap();
        assert_eq!(execute.code, "1+1");
        assert_eq!(execute.context_id, None);
    }
}
