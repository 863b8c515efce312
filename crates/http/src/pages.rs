//! Pages in a browser of this machine, who may call anybody that listens here.
//!
//! Only where no tokens are asked for: a page has none.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, Uri, header, uri::Authority};
use sandbox_core::{Error, ErrorCode, Result};

/// Browsers tell by `Origin` whose page it is.
pub fn refuse_foreign_pages(headers: &HeaderMap) -> Result<()> {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let host = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.parse::<Uri>().ok())
        .and_then(|origin| Some(origin.host()?.to_owned()));
    match host.as_deref() {
        Some("localhost" | "127.0.0.1" | "[::1]") => Ok(()),
        _ => Err(Error::new(
            ErrorCode::Forbidden,
            "without tokens, only pages of this machine may call",
        )),
    }
}

/// A page reads as its own what is at its own name, which it may let lead here (DNS
/// rebinding). Besides the machine's own names and addresses, those in `hosts` are good.
pub(crate) fn refuse_foreign_hosts(headers: &HeaderMap, hosts: &[String]) -> Result<()> {
    let mut named = headers.get_all(header::HOST).iter();
    // A browser always sends it.
    let Some(host) = named.next() else {
        return Ok(());
    };
    let host = host
        .to_str()
        .ok()
        .and_then(|host| host.parse::<Authority>().ok())
        .map(|authority| authority.host().trim_end_matches('.').to_ascii_lowercase());
    let is_good = host.is_some_and(|host| {
        is_of_no_domain(&host) || hosts.iter().any(|good| good.eq_ignore_ascii_case(&host))
    });
    if is_good && named.next().is_none() {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::Forbidden,
        "without tokens, only requests to localhost, to an address or to one of `hosts` (settings) \
         are answered",
    ))
}

/// Names and addresses that no DNS server can make its own.
pub fn is_of_no_domain(host: &str) -> bool {
    host == "localhost"
        || host.parse::<Ipv4Addr>().is_ok()
        || host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .is_some_and(|host| host.parse::<Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_answered(hosts: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        refuse_foreign_hosts(&headers, &["Sandbox.Internal".to_owned()]).is_ok()
    }

    #[test]
    fn only_names_that_no_page_can_have_are_answered() {
        for good in [
            "localhost",
            "LOCALHOST.:8080",
            "127.0.0.1:1",
            "10.0.0.7",
            "[::1]:8080",
            "sandbox.internal:80",
        ] {
            assert!(is_answered(&[good]), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "user@evil.example",
            "[evil]",
            "sandbox.internal.evil.example",
        ] {
            assert!(!is_answered(&[bad]), "{bad}");
        }
        assert!(!is_answered(&["localhost", "evil.example"]));
        assert!(is_answered(&[]));
    }
}
