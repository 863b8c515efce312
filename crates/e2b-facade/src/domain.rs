//! The domain under which the ports of sandboxes have names.

use std::{fmt, str::FromStr};

use sandbox_core::{Error, ErrorCode};

/// A DNS name in lower case, and the port of the listener where it is not 443.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    host: String,
    port: Option<u16>,
}

impl Domain {
    /// Without the port.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }
}

impl FromStr for Domain {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || {
            Error::new(
                ErrorCode::InvalidRequest,
                format!("`{text}` is not a domain such as sbx.example.com or sbx.example.com:8443"),
            )
        };
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| bad())?)),
            None => (text, None),
        };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        // Numbers alone would be an address.
        let is_name = host.bytes().any(|b| b.is_ascii_alphabetic());
        if host.len() <= 200 && is_name && host.split('.').all(label) {
            Ok(Self { host, port })
        } else {
            Err(bad())
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_a_name_with_or_without_a_port() {
        for (text, shown) in [
            ("sbx.example.com", "sbx.example.com"),
            ("SBX.Example.com.", "sbx.example.com"),
            ("e2b.localhost:8443", "e2b.localhost:8443"),
        ] {
            assert_eq!(text.parse::<Domain>().unwrap().to_string(), shown);
        }
        for bad in [
            "",
            "a b",
            "a..b",
            "-a.b",
            "1.2.3.4",
            "a:b",
            "http://a.b",
            "a/b",
            "[::1]",
        ] {
            assert!(bad.parse::<Domain>().is_err(), "{bad}");
        }
    }
}
