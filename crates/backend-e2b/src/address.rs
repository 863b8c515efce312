//! Where the control plane and the ports of sandboxes are.

use e2b_wire::headers;
use http::{HeaderMap, HeaderValue, Uri, uri::Scheme};

/// Why an address is not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("an address such as https://e2b.example.com is expected, without a path")]
    Url,
    #[error("https is needed, except on loopback: the key and all that sandboxes do go there")]
    Plain,
    #[error("a domain such as e2b.app is expected")]
    Domain,
}

/// An E2B server, as its SDKs are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Servers {
    api: String,
    sandboxes: Sandboxes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Sandboxes {
    /// `{port}-{id}.{domain}`.
    Named { domain: String },
    /// One address for all; headers say which is meant.
    At { origin: String },
}

/// A port of one sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub origin: String,
    /// What says which sandbox is meant, where the name does not.
    pub headers: HeaderMap,
}

impl Servers {
    /// `api_url` and `sandbox_url` stand for what would be derived from the domain.
    pub fn new(
        domain: &str,
        api_url: Option<&str>,
        sandbox_url: Option<&str>,
    ) -> Result<Self, AddressError> {
        if !is_domain(domain) {
            return Err(AddressError::Domain);
        }
        Ok(Self {
            api: match api_url {
                Some(url) => origin(url)?,
                None => format!("https://api.{domain}"),
            },
            sandboxes: match sandbox_url {
                Some(url) => Sandboxes::At {
                    origin: origin(url)?,
                },
                None => Sandboxes::Named {
                    domain: domain.to_owned(),
                },
            },
        })
    }

    pub(crate) fn api(&self) -> &str {
        &self.api
    }

    /// `domain` is what the server says of the sandbox. It is a server's word for a name
    /// of its own: https is spoken there in any case.
    pub(crate) fn port(&self, sandbox: &str, domain: Option<&str>, port: u16) -> Option<Port> {
        // Nothing else is an id, and this one becomes part of a host's name.
        if sandbox.is_empty() || !sandbox.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return None;
        }
        let mut headers = HeaderMap::new();
        let origin = match &self.sandboxes {
            Sandboxes::Named { domain: own } => {
                let domain = domain.filter(|it| is_domain(it)).unwrap_or(own);
                format!("https://{port}-{sandbox}.{domain}")
            }
            Sandboxes::At { origin } => {
                headers.insert(headers::SANDBOX_ID, HeaderValue::from_str(sandbox).ok()?);
                headers.insert(headers::SANDBOX_PORT, HeaderValue::from(port));
                origin.clone()
            }
        };
        Some(Port { origin, headers })
    }
}

/// A name of labels, with a port perhaps.
fn is_domain(text: &str) -> bool {
    let (name, port) = text.split_once(':').unwrap_or((text, "443"));
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    text.len() < 200 && port.parse::<u16>().is_ok() && name.split('.').all(is_label)
}

fn origin(url: &str) -> Result<String, AddressError> {
    let uri: Uri = url.parse().map_err(|_| AddressError::Url)?;
    let authority = uri.authority().ok_or(AddressError::Url)?;
    let host = authority.host().trim_matches(['[', ']']);
    let bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
    if !bare || host.is_empty() || authority.as_str().contains('@') {
        return Err(AddressError::Url);
    }
    match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => {}
        Some(scheme) if *scheme == Scheme::HTTP && is_loopback(host) => {}
        Some(scheme) if *scheme == Scheme::HTTP => return Err(AddressError::Plain),
        _ => return Err(AddressError::Url),
    }
    Ok(url.trim_end_matches('/').to_owned())
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_those_of_the_sdks() {
        let cloud = Servers::new("e2b.app", None, None).unwrap();
        assert_eq!(cloud.api(), "https://api.e2b.app");
        let port = cloud.port("ia1", None, 49983).unwrap();
        assert_eq!(port.origin, "https://49983-ia1.e2b.app");
        assert!(port.headers.is_empty());
        let other = cloud.port("ia1", Some("eu.example.com:8443"), 3000);
        assert_eq!(
            other.unwrap().origin,
            "https://3000-ia1.eu.example.com:8443"
        );
        let one = Some("http://127.0.0.1:8081/");
        let own = Servers::new("e2b.app", one, one).unwrap();
        assert_eq!(own.api(), "http://127.0.0.1:8081");
        let port = own.port("ia1", Some("e2b.app"), 49983).unwrap();
        assert_eq!(port.origin, "http://127.0.0.1:8081");
        assert_eq!(port.headers["e2b-sandbox-id"], "ia1");
        assert_eq!(port.headers["e2b-sandbox-port"], "49983");
    }

    #[test]
    fn what_a_server_says_cannot_lead_elsewhere() {
        let cloud = Servers::new("e2b.app", None, None).unwrap();
        for id in ["", "a.evil.com/", "a-b", "a@evil.com", "ä"] {
            assert!(cloud.port(id, None, 1).is_none(), "{id:?}");
        }
        for domain in ["evil.com/x?", "u@evil.com", "evil.com#", "", "a..b", "a:b"] {
            let port = cloud.port("i1", Some(domain), 1).unwrap();
            assert_eq!(port.origin, "https://1-i1.e2b.app", "{domain:?}");
        }
    }

    #[test]
    fn plain_http_is_for_loopback_alone() {
        let api = |url| Servers::new("e2b.app", Some(url), None).err();
        for good in [
            "http://localhost:1",
            "http://[::1]:1",
            "https://e2b.example.com",
        ] {
            assert_eq!(api(good), None, "{good}");
        }
        for plain in [
            "http://e2b.example.com",
            "http://127.0.0.1.example.com",
            "http://10.0.0.1",
        ] {
            assert_eq!(api(plain), Some(AddressError::Plain), "{plain}");
        }
        for bad in [
            "",
            "e2b.app",
            "ftp://localhost",
            "https://u:p@e2b.app",
            "https://e2b.app/x",
        ] {
            assert_eq!(api(bad), Some(AddressError::Url), "{bad}");
        }
        assert_eq!(Servers::new("a/b", None, None), Err(AddressError::Domain));
    }
}
