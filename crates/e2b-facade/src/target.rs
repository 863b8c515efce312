//! Which sandbox and port a request is for, or whether it is for the control plane.
//!
//! | Host | headers | what is meant |
//! |---|---|---|
//! | `{port}-{id}.{domain}` | not looked at | that port |
//! | `sandbox.{domain}`, `api.{domain}`, `{domain}`, `localhost`, an address | of routing | the port that they name |
//! | the same | none | the control plane |
//! | any other, with a domain set | | refused |
//!
//! Where the name says which sandbox is meant, headers cannot say another: pages of one
//! sandbox must not be able to speak as another. Without a domain the first row holds
//! for any, and every other host is as `localhost`.

use e2b_wire::headers::{SANDBOX_ID, SANDBOX_PORT};
use http::{HeaderMap, Uri, header};
use sandbox_http::is_of_no_domain;

use crate::{
    Domain,
    sandbox::{is_like_ours, is_sandbox_id},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Control,
    Port { sandbox: String, port: u16 },
}

/// Why it cannot be told what is meant; for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unclear(pub &'static str);

const FOREIGN: Unclear = Unclear("the host is not one of this service");

/// `strangers`: without a domain any host will do, as behind a gateway. Where no key is
/// asked for it will not: a page whose name was made to lead here is of this machine to
/// the browser.
pub(crate) fn target(
    domain: Option<&Domain>,
    strangers: bool,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Target, Unclear> {
    let host = host(uri, headers)?;
    let Some(domain) = domain else {
        let of_ours = |label: &&str| {
            let parts = label.split_once('-');
            parts.is_some_and(|(_, sandbox)| is_like_ours(sandbox))
        };
        return match host.split('.').next().filter(of_ours) {
            Some(label) => by_name(label),
            None if strangers || is_of_no_domain(&host) => by_headers(headers),
            None => Err(FOREIGN),
        };
    };
    match under(&host, domain.host()) {
        Some("" | "api" | "sandbox") => by_headers(headers),
        Some(label) => by_name(label),
        None if is_of_no_domain(&host) => by_headers(headers),
        None => Err(FOREIGN),
    }
}

/// In lower case, without the port.
fn host(uri: &Uri, headers: &HeaderMap) -> Result<String, Unclear> {
    let mut named = headers.get_all(header::HOST).iter();
    let first = named.next().map(|host| host.to_str());
    if named.next().is_some() {
        return Err(Unclear("`Host` is there more than once"));
    }
    // RFC 9112, 3.2.2: a target with an authority is what counts.
    let host = match (uri.authority(), first) {
        (Some(authority), _) => authority.as_str(),
        (None, Some(Ok(host))) => host,
        (None, _) => return Err(Unclear("the request has no `Host`")),
    };
    let host = match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => host,
    };
    Ok(host.trim_end_matches('.').to_ascii_lowercase())
}

/// What stands before the domain.
fn under<'a>(host: &'a str, domain: &str) -> Option<&'a str> {
    let before = host.strip_suffix(domain)?;
    match before {
        "" => Some(""),
        _ => before.strip_suffix('.'),
    }
}

fn by_name(label: &str) -> Result<Target, Unclear> {
    label
        .split_once('-')
        .and_then(|(port, sandbox)| sandbox_port(sandbox, port))
        .ok_or(Unclear("the host is not `{port}-{sandbox}` of this domain"))
}

fn by_headers(headers: &HeaderMap) -> Result<Target, Unclear> {
    let mut ids = headers.get_all(SANDBOX_ID).iter();
    let mut ports = headers.get_all(SANDBOX_PORT).iter();
    match (ids.next(), ports.next()) {
        (None, None) => Ok(Target::Control),
        (Some(id), Some(port)) if ids.next().is_none() && ports.next().is_none() => {
            let text = |value: &'_ http::HeaderValue| value.to_str().ok().map(str::to_owned);
            text(id)
                .zip(text(port))
                .and_then(|(id, port)| sandbox_port(&id, &port))
                .ok_or(Unclear(
                    "`E2b-Sandbox-Id` or `E2b-Sandbox-Port` is not valid",
                ))
        }
        _ => Err(Unclear(
            "`E2b-Sandbox-Id` and `E2b-Sandbox-Port` are needed once each",
        )),
    }
}

fn sandbox_port(sandbox: &str, port: &str) -> Option<Target> {
    // `parse` would take a sign, and `080` is not what anybody means.
    let plain = port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0');
    let port = port.parse().ok().filter(|_| plain)?;
    is_sandbox_id(sandbox).then(|| Target::Port {
        sandbox: sandbox.to_owned(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "iabcdefghij0123456789";

    fn of(domain: Option<&str>, host: &str, headers: &[(&'static str, &str)]) -> Option<Target> {
        let domain = domain.map(|domain| domain.parse().unwrap());
        let mut map = HeaderMap::new();
        map.insert(header::HOST, host.parse().unwrap());
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        target(domain.as_ref(), true, &Uri::from_static("/files"), &map).ok()
    }

    fn port(port: u16) -> Option<Target> {
        Some(Target::Port {
            sandbox: ID.to_owned(),
            port,
        })
    }

    #[test]
    fn a_name_of_the_domain_says_what_is_meant() {
        let d = Some("sbx.example.com:8443");
        let other = [(SANDBOX_ID, "izzzzzzzzzzzzzzzzzzzzz"), (SANDBOX_PORT, "1")];
        for host in [
            format!("3000-{ID}.sbx.example.com"),
            format!("3000-{ID}.SBX.example.com:8443"),
            format!("3000-{ID}.sbx.example.com."),
        ] {
            assert_eq!(of(d, &host, &[]), port(3000), "{host}");
            assert_eq!(
                of(d, &host, &other),
                port(3000),
                "headers are not looked at"
            );
        }
        for bad in [
            format!("0-{ID}.sbx.example.com"),
            format!("03000-{ID}.sbx.example.com"),
            format!("+3000-{ID}.sbx.example.com"),
            format!("65536-{ID}.sbx.example.com"),
            format!("3000-{ID}-x.sbx.example.com"),
            format!("a.3000-{ID}.sbx.example.com"),
            format!("3000-{ID}xsbx.example.com"),
            format!("3000-{ID}.example.com"),
            "www.sbx.example.com".into(),
            "evil.org".into(),
        ] {
            assert_eq!(of(d, &bad, &[]), None, "{bad}");
            assert_eq!(of(d, &bad, &other), None, "{bad}");
        }
    }

    #[test]
    fn headers_count_where_no_name_does() {
        let d = Some("sbx.example.com");
        let headers = [(SANDBOX_ID, ID), (SANDBOX_PORT, "49983")];
        for host in [
            "localhost",
            "localhost:3000",
            "127.0.0.1:80",
            "[::1]:80",
            "api.sbx.example.com",
            "sandbox.sbx.example.com",
            "sbx.example.com",
        ] {
            assert_eq!(of(d, host, &headers), port(49983), "{host}");
            assert_eq!(of(d, host, &[]), Some(Target::Control), "{host}");
        }
        assert_eq!(of(None, "sandboxd:8090", &headers), port(49983));
        assert_eq!(of(None, "sandboxd:8090", &[]), Some(Target::Control));
        let id = "i0000000000000000000000001";
        let named = Target::Port {
            sandbox: id.to_owned(),
            port: 3000,
        };
        let host = format!("3000-{id}.e2b.app");
        assert_eq!(of(None, &host, &headers), Some(named));
        assert_eq!(of(None, &format!("x-{id}.e2b.app"), &headers), None);
    }

    #[test]
    fn half_a_routing_is_none() {
        for bad in [
            &[(SANDBOX_ID, ID)][..],
            &[(SANDBOX_PORT, "1")],
            &[(SANDBOX_ID, ID), (SANDBOX_PORT, "1"), (SANDBOX_PORT, "2")],
            &[(SANDBOX_ID, "../x"), (SANDBOX_PORT, "1")],
            &[(SANDBOX_ID, ID), (SANDBOX_PORT, "-1")],
        ] {
            assert_eq!(of(None, "localhost", bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_authority_of_the_target_is_the_host() {
        let domain: Domain = "sbx.example.com".parse().unwrap();
        let uri = format!("https://80-{ID}.sbx.example.com/x")
            .parse()
            .unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "api.sbx.example.com".parse().unwrap());
        assert_eq!(target(Some(&domain), true, &uri, &headers).ok(), port(80));
        headers.append(header::HOST, "localhost".parse().unwrap());
        assert!(target(Some(&domain), true, &uri, &headers).is_err());
        assert!(target(None, true, &Uri::from_static("/"), &HeaderMap::new()).is_err());
    }

    #[test]
    fn without_keys_a_name_that_was_made_to_lead_here_does_not() {
        for (host, good) in [
            ("localhost:8081", true),
            ("127.0.0.1", true),
            ("[::1]:8081", true),
            ("3000-i0000000000000000000000000.localhost", true),
            ("evil.example", false),
            ("localhost.evil.example", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            let found = target(None, false, &Uri::from_static("/sandboxes"), &headers);
            assert_eq!(found.is_ok(), good, "{host}");
        }
    }
}
