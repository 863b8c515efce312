//! Errors of the control plane and of envd's REST routes.

use serde::{Deserialize, Serialize};

/// `components.schemas.Error` of spec/openapi.yml.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// The HTTP status again.
    pub code: i32,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
}

impl ApiError {
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self {
            code: i32::from(status),
            message: message.into(),
            error_code: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_its_status_and_words() {
        let error = ApiError::new(404, "sandbox \"ix\" doesn't exist");
        let text = r#"{"code":404,"message":"sandbox \"ix\" doesn't exist"}"#;
        assert_eq!(serde_json::to_string(&error).unwrap(), text);
        let newer = r#"{"code":404,"message":"m","error_code":"x","more":[1]}"#;
        let error: ApiError = serde_json::from_str(newer).unwrap();
        assert_eq!(error.error_code.as_deref(), Some("x"));
    }
}
