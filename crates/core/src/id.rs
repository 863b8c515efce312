//! Who owns a sandbox, and what the sandbox is called.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};
use sha2::{Digest, Sha256};

use crate::{Error, ErrorCode};

const MAX_ID_CHARS: usize = 128;
const MAX_CONTEXT_CHARS: usize = 64;

fn check(kind: &str, text: &str) -> Result<(), Error> {
    let problem = if text.is_empty() {
        "is empty"
    } else if text.len() > MAX_ID_CHARS {
        "is longer than 128 characters"
    } else if kind == "context" && text.len() > MAX_CONTEXT_CHARS {
        "is longer than 64 characters"
    } else if text.starts_with(['.', '-']) {
        "starts with `.` or `-`"
    } else if !text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    {
        "has a character outside [A-Za-z0-9._-]"
    } else {
        return Ok(());
    };
    Err(Error::new(
        ErrorCode::InvalidRequest,
        format!("{kind} {problem}"),
    ))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        pub struct $name(String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                check($kind, text)?;
                Ok(Self(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?
                    .parse()
                    .map_err(|error: Error| de::Error::custom(error.detail()))
            }
        }
    };
}

id!(
    /// Who is served: 1 to 128 of `[A-Za-z0-9._-]`, not starting with `.` or `-`.
    TenantId,
    "tenant_id"
);
id!(
    /// A tenant's name for one sandbox over time; the same rule as [`TenantId`].
    SessionId,
    "session_id"
);

id!(
    /// A run's name within its tenant; the same rule as [`TenantId`].
    ExecutionId,
    "execution_id"
);

id!(
    /// A context's name within its session: the same rule as [`TenantId`], but at most 64.
    ContextName,
    "context"
);

impl ExecutionId {
    /// A new one: a UUID of version 7.
    pub fn generate() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }
}

/// Names a session among those of all tenants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    pub tenant: TenantId,
    pub session: SessionId,
}

impl SessionKey {
    pub fn new(tenant: TenantId, session: SessionId) -> Self {
        Self { tenant, session }
    }

    /// The name of this session's sandbox on the outside.
    pub fn sandbox_id(&self) -> SandboxId {
        // Length-prefixed: `a-b`+`c` and `a`+`b-c` must not meet.
        let mut hash = Sha256::new();
        for part in [self.tenant.as_str(), self.session.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let hex: String = hash.finalize()[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        SandboxId(hex)
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.session)
    }
}

/// What a sandbox is called outside: 32 hex digits, made from its [`SessionKey`] or,
/// of one that was started before there was a session for it, by chance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct SandboxId(String);

impl SandboxId {
    pub fn generate() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SandboxId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() == 32 && text.bytes().all(hex) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::new(
                ErrorCode::InvalidRequest,
                "a sandbox id is 32 hex digits",
            ))
        }
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: &str, session: &str) -> SessionKey {
        SessionKey::new(tenant.parse().unwrap(), session.parse().unwrap())
    }

    #[test]
    fn ids_refuse_what_could_be_a_path_or_an_option() {
        let long = "a".repeat(129);
        for bad in [
            "", ".", "..", "-x", ".x", "a/b", "a b", "a\n", "ä", "a\0", &long,
        ] {
            assert!(bad.parse::<TenantId>().is_err(), "{bad:?}");
        }
        for good in ["a", "A.b_c-9", &"a".repeat(128)] {
            assert!(good.parse::<SessionId>().is_ok(), "{good:?}");
        }
    }

    #[test]
    fn pairs_that_would_meet_when_joined_have_sandboxes_of_their_own() {
        let ids = [
            key("a-b", "c").sandbox_id(),
            key("a", "b-c").sandbox_id(),
            key("ab", "c").sandbox_id(),
            key("a", "bc").sandbox_id(),
        ];
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
        assert!(ids[0].as_str().parse::<SandboxId>().is_ok());
    }

    #[test]
    fn ids_are_checked_when_read_from_json() {
        assert!(serde_json::from_str::<TenantId>("\"ok\"").is_ok());
        assert!(serde_json::from_str::<TenantId>("\"../x\"").is_err());
    }
}
