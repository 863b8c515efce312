//! Errors of the proxy in front of sandboxes, which the SDKs know by their words
//! (packages/shared/pkg/proxy of e2b-dev/infra).

use serde::{Deserialize, Serialize};

pub const NOT_FOUND: &str = "The sandbox was not found";
pub const PORT_CLOSED: &str = "The sandbox is running but port is not open";

/// The body of a refusal by the proxy, mostly a 502.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyError {
    pub sandbox_id: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    pub code: u16,
}

impl ProxyError {
    /// Not there, ended or another's: the three look the same.
    pub fn not_found(sandbox_id: &str) -> Self {
        Self {
            sandbox_id: sandbox_id.to_owned(),
            message: NOT_FOUND.to_owned(),
            port: None,
            code: 502,
        }
    }

    pub fn port_closed(sandbox_id: &str, port: u16) -> Self {
        Self {
            message: PORT_CLOSED.to_owned(),
            port: Some(port),
            ..Self::not_found(sandbox_id)
        }
    }

    /// Of a port that needs the traffic token; `given`: there was one, and it is wrong.
    pub fn token_refused(sandbox_id: &str, given: bool) -> Self {
        let what = match given {
            true => "Provided token in header 'e2b-traffic-access-token' is invalid",
            false => "Token header 'e2b-traffic-access-token' is missing",
        };
        Self {
            message: format!("Sandbox is secured with traffic access token. {what}"),
            code: 403,
            ..Self::not_found(sandbox_id)
        }
    }

    /// Of a port that would take more than there may be.
    pub fn too_many(sandbox_id: &str, port: u16, code: u16, message: &str) -> Self {
        Self {
            message: message.to_owned(),
            port: Some(port),
            code,
            ..Self::not_found(sandbox_id)
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.message.contains("was not found")
    }

    pub fn is_port_closed(&self) -> bool {
        self.message.contains("port is not open")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_that_the_sdks_look_for() {
        let text = |error: &ProxyError| serde_json::to_string(error).unwrap();
        assert_eq!(
            text(&ProxyError::not_found("ia1")),
            r#"{"sandboxId":"ia1","message":"The sandbox was not found","code":502}"#
        );
        assert_eq!(
            text(&ProxyError::port_closed("ia1", 3000)),
            r#"{"sandboxId":"ia1","message":"The sandbox is running but port is not open","port":3000,"code":502}"#
        );
        let missing = ProxyError::token_refused("ia1", false);
        assert!(
            missing
                .message
                .ends_with("'e2b-traffic-access-token' is missing")
        );
        assert_eq!(missing.code, 403);
    }
}
