//! The guest's programs that keep interpreters alive.

use sandbox_core::ErrorCode;

use crate::error::error;

/// In which language one is written, and therefore runs code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    Python,
    JavaScript,
    R,
    Bash,
}

impl Driver {
    pub fn named(name: &str) -> Result<Self, connectrpc::ConnectError> {
        Ok(match name {
            "python" => Self::Python,
            "javascript" => Self::JavaScript,
            "r" => Self::R,
            "bash" => Self::Bash,
            _ => {
                return Err(error(
                    ErrorCode::Unsupported,
                    format!("there are no contexts of `{name}`"),
                ));
            }
        })
    }

    pub fn file_name(self) -> &'static str {
        match self {
            Self::Python => "context.py",
            Self::JavaScript => "context.js",
            Self::R => "context.R",
            Self::Bash => "context.sh",
        }
    }
}
