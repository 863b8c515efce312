//! Headers that are for this service or for one connection, and go no further.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use sandbox_auth::ApiKey;

/// RFC 9110, 7.6.1, and what older software sends.
const OF_A_CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];
const API_KEY: HeaderName = HeaderName::from_static(e2b_wire::headers::API_KEY);
const ACCESS_TOKEN: HeaderName = HeaderName::from_static(e2b_wire::headers::ACCESS_TOKEN);

/// Routing and tokens: what runs in a sandbox has no business with them.
pub(super) fn strip_ours(headers: &mut HeaderMap) {
    let ours: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("e2b-"))
        .cloned()
        .collect();
    for name in ours {
        headers.remove(name);
    }
    headers.remove(ACCESS_TOKEN);
    // A program may have keys of its own, which are none of ours.
    let is_ours = |text: &str| ApiKey::is_meant(text) || is_like_jwt(text);
    let is_bearer = |text: &str| {
        let (scheme, token) = text.split_once(' ').unwrap_or_default();
        scheme.eq_ignore_ascii_case("bearer") && ApiKey::is_meant(token.trim())
    };
    let has = |name: &HeaderName, is: &dyn Fn(&str) -> bool| {
        let mut values = headers.get_all(name).iter();
        values.any(|value| value.to_str().is_ok_and(is))
    };
    let (key, authorization) = (
        has(&API_KEY, &is_ours),
        has(&header::AUTHORIZATION, &is_bearer),
    );
    if key {
        headers.remove(API_KEY);
    }
    if authorization {
        headers.remove(header::AUTHORIZATION);
    }
}

/// The control plane takes one in the place of a key.
fn is_like_jwt(text: &str) -> bool {
    text.starts_with("eyJ") && text.matches('.').count() == 2
}

/// What a gateway would obey, and what the service itself says: not a program's to say.
pub(super) fn strip_of_gateways(headers: &mut HeaderMap) {
    let names: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            let name = name.as_str();
            name.starts_with("x-accel-")
                || matches!(
                    name,
                    "x-sendfile"
                        | "x-lighttpd-send-file"
                        | "x-reproxy-url"
                        | "x-request-id"
                        | "traceresponse"
                )
        })
        .cloned()
        .collect();
    for name in names {
        headers.remove(name);
    }
}

/// What is said to the next on the line alone; gives the protocol that was asked for.
pub(super) fn strip_hop(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // Not a client's to take away.
        .filter(|name| *name != header::HOST && *name != header::CONTENT_LENGTH)
        .collect();
    let wants_upgrade = named.contains(&header::UPGRADE);
    let upgrade = headers.get(header::UPGRADE).cloned();
    for name in named.iter().chain(&OF_A_CONNECTION) {
        headers.remove(name);
    }
    upgrade.filter(|_| wants_upgrade)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn tokens_and_routing_stay_here() {
        let mut left = headers(&[
            ("e2b-sandbox-id", "i"),
            ("e2b-traffic-access-token", "t"),
            ("x-access-token", "t"),
            ("x-api-key", "e2b_0"),
            ("x-api-key", "eyJhbGciOiJIUzI1NiJ9.e30.c2ln"),
            ("authorization", "Bearer theirs"),
        ]);
        strip_ours(&mut left);
        assert_eq!(left, headers(&[("authorization", "Bearer theirs")]));
        let mut left = headers(&[("authorization", "bearer e2b_0")]);
        strip_ours(&mut left);
        assert!(left.is_empty(), "{left:?}");
        let own = headers(&[("x-api-key", "theirs")]);
        let mut left = own.clone();
        strip_ours(&mut left);
        assert_eq!(left, own);
    }

    #[test]
    fn headers_of_a_connection_stay_on_it() {
        let mut left = headers(&[
            ("connection", "keep-alive, x-hop , Upgrade"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=1"),
            ("upgrade", "websocket"),
            ("te", "trailers"),
            ("sec-websocket-key", "k"),
        ]);
        left.append(header::CONNECTION, HeaderValue::from_static("host"));
        left.insert(header::HOST, HeaderValue::from_static("h"));
        let upgrade = strip_hop(&mut left);
        assert_eq!(left.remove(header::HOST).unwrap(), "h");
        assert_eq!(upgrade, Some(HeaderValue::from_static("websocket")));
        assert_eq!(left, headers(&[("sec-websocket-key", "k")]));
        // Not asked for on this connection.
        assert_eq!(strip_hop(&mut headers(&[("upgrade", "websocket")])), None);
    }

    #[test]
    fn a_program_does_not_steer_the_gateway() {
        let mut left = headers(&[
            ("x-accel-redirect", "/secret"),
            ("x-sendfile", "/etc/passwd"),
            ("x-request-id", "forged"),
            ("x-theirs", "1"),
        ]);
        strip_of_gateways(&mut left);
        assert_eq!(left, headers(&[("x-theirs", "1")]));
    }
}
