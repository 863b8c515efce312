//! Signatures of file URLs, by which a browser reads or writes one file without
//! the token (packages/envd/internal/api/auth.go of e2b-dev/infra, and
//! `get_signature` of the SDKs).

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    Read,
    Write,
}

impl FileOperation {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// What a signature says.
#[derive(Clone, Copy, Debug)]
pub struct FileSignature<'a> {
    pub path: &'a str,
    pub operation: FileOperation,
    /// Empty: the sandbox's default user.
    pub username: &'a str,
    /// Unix seconds; `None`: it holds as long as the sandbox.
    pub expires: Option<i64>,
}

impl FileSignature<'_> {
    /// `v1_` and the base64 of a SHA-256, without padding.
    pub fn sign(&self, envd_access_token: &str) -> String {
        let mut hash = Sha256::new();
        for part in [
            self.path,
            ":",
            self.operation.as_str(),
            ":",
            self.username,
            ":",
        ] {
            hash.update(part);
        }
        hash.update(envd_access_token);
        if let Some(expires) = self.expires {
            hash.update(format!(":{expires}"));
        }
        format!("v1_{}", STANDARD_NO_PAD.encode(hash.finalize()))
    }

    /// Whether `signature` is this one. That it has not expired is for the caller to see.
    pub fn is_signed_by(&self, envd_access_token: &str, signature: &str) -> bool {
        let right = self.sign(envd_access_token);
        right.as_bytes().ct_eq(signature.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: FileSignature<'static> = FileSignature {
        path: "/tmp/x",
        operation: FileOperation::Read,
        username: "",
        expires: None,
    };

    #[test]
    fn signatures_are_those_of_the_official_sdks() {
        let forever = "v1_2RNEpGQrzgYayGJ3vTvjBFdKvQBdjF51W30y+SscS7I";
        assert_eq!(READ.sign("tok"), forever);
        let until = FileSignature {
            expires: Some(1_700_000_000),
            ..READ
        };
        assert_eq!(
            until.sign("tok"),
            "v1_obRrnrlNyoQ8cn7rhOA0XalL0OGeeOQB/eCz/vGCXxU"
        );
        assert!(READ.is_signed_by("tok", forever));
    }

    #[test]
    fn a_signature_is_good_for_one_thing_alone() {
        let signed = READ.sign("tok");
        let other = [
            FileSignature {
                path: "/tmp/y",
                ..READ
            },
            FileSignature {
                operation: FileOperation::Write,
                ..READ
            },
            FileSignature {
                username: "user",
                ..READ
            },
            FileSignature {
                expires: Some(1),
                ..READ
            },
        ];
        for other in other {
            assert!(!other.is_signed_by("tok", &signed), "{other:?}");
        }
        assert!(!READ.is_signed_by("kot", &signed));
        assert!(!READ.is_signed_by("tok", ""));
        assert!(!READ.is_signed_by("tok", &signed[..signed.len() - 1]));
    }
}
