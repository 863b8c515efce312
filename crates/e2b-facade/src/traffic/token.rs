//! Whether a request may speak to a sandbox: by envd's rules, and those of the proxy.

use std::collections::HashMap;

use e2b_wire::{
    FileOperation, FileSignature,
    headers::{ACCESS_TOKEN, TRAFFIC_TOKEN},
};
use http::{HeaderMap, HeaderName, Method, Uri};
use sandbox_core::Timestamp;

use crate::{sandbox::Found, secret::Purpose, state::Facade};

/// Why a request may not, in envd's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Denied(pub &'static str);

/// Whether envd takes the request. `/health` tells nothing that is secret; a file may be
/// signed for in its address, for who has no token to send.
pub(super) fn envd(
    facade: &Facade,
    found: &Found,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Denied> {
    if uri.path() == "/health" && method == Method::GET {
        return Ok(());
    }
    match only(headers, ACCESS_TOKEN) {
        Some(given) if found.is_token(facade, Purpose::Envd, given) => Ok(()),
        Some(_) => Err(Denied("invalid access token")),
        None if headers.contains_key(ACCESS_TOKEN) => Err(Denied("invalid access token")),
        None if uri.path() == "/files" => {
            let token = found.token(facade, Purpose::Envd);
            signed(&token, method, uri, facade.clock.now())
        }
        None => Err(Denied("missing access token")),
    }
}

fn signed(token: &str, method: &Method, uri: &Uri, now: Timestamp) -> Result<(), Denied> {
    let query: HashMap<String, String> =
        form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
            .into_owned()
            .collect();
    let text = |name: &str| query.get(name).map_or("", String::as_str);
    let signature = text("signature");
    if signature.is_empty() {
        return Err(Denied("missing signature query parameter"));
    }
    let operation = match *method {
        Method::GET | Method::HEAD => FileOperation::Read,
        Method::POST => FileOperation::Write,
        _ => return Err(Denied("invalid signature")),
    };
    let expires = match text("signature_expiration") {
        "" => None,
        number => Some(number.parse().map_err(|_| Denied("invalid signature"))?),
    };
    let signed = FileSignature {
        path: text("path"),
        operation,
        username: text("username"),
        expires,
    };
    if !signed.is_signed_by(token, signature) {
        return Err(Denied("invalid signature"));
    }
    match expires {
        Some(expires) if expires < now.0 / 1000 => Err(Denied("signature is already expired")),
        _ => Ok(()),
    }
}

/// Of a port of a program in the sandbox: given, and right.
pub(super) fn traffic(facade: &Facade, found: &Found, headers: &HeaderMap) -> Result<(), bool> {
    match only(headers, TRAFFIC_TOKEN) {
        Some(given) if found.is_token(facade, Purpose::Traffic, given) => Ok(()),
        _ => Err(headers.contains_key(TRAFFIC_TOKEN)),
    }
}

/// Of the code interpreter: the SDKs send the one with some calls, the other with all.
/// An error tells whether there was one.
pub(crate) fn has_any_token(
    facade: &Facade,
    found: &Found,
    headers: &HeaderMap,
) -> Result<(), bool> {
    let envd = only(headers, ACCESS_TOKEN)
        .is_some_and(|given| found.is_token(facade, Purpose::Envd, given));
    match traffic(facade, found, headers) {
        Err(given) if !envd => Err(given || headers.contains_key(ACCESS_TOKEN)),
        _ => Ok(()),
    }
}

fn only<'a>(headers: &'a HeaderMap, name: &'static str) -> Option<&'a [u8]> {
    let mut values = headers.get_all(HeaderName::from_static(name)).iter();
    let first = values.next()?;
    values.next().is_none().then(|| first.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(method: Method, query: &str) -> Result<(), Denied> {
        let uri = format!("/files?{query}").parse().unwrap();
        signed("tok", &method, &uri, Timestamp(1_700_000_000_000))
    }

    #[test]
    fn a_signed_address_opens_its_file_until_it_expires() {
        let forever = "signature=v1_2RNEpGQrzgYayGJ3vTvjBFdKvQBdjF51W30y%2BSscS7I";
        let until = "signature=v1_obRrnrlNyoQ8cn7rhOA0XalL0OGeeOQB/eCz/vGCXxU";
        let file = "path=%2Ftmp%2Fx";
        assert_eq!(address(Method::GET, &format!("{file}&{forever}")), Ok(()));
        assert_eq!(
            address(
                Method::GET,
                &format!("{file}&{until}&signature_expiration=1700000000")
            ),
            Ok(())
        );
        for (method, query, why) in [
            (
                Method::GET,
                file.to_owned(),
                "missing signature query parameter",
            ),
            (
                Method::POST,
                format!("{file}&{forever}"),
                "invalid signature",
            ),
            (
                Method::GET,
                format!("path=/tmp/y&{forever}"),
                "invalid signature",
            ),
            (
                Method::GET,
                format!("{file}&username=a&{forever}"),
                "invalid signature",
            ),
            (
                Method::GET,
                format!("{file}&{forever}&signature_expiration=1800000000"),
                "invalid signature",
            ),
            (
                Method::GET,
                format!("{file}&{forever}&signature_expiration=soon"),
                "invalid signature",
            ),
        ] {
            assert_eq!(address(method, &query), Err(Denied(why)), "{query}");
        }
    }

    #[test]
    fn an_address_that_has_expired_opens_nothing() {
        let signed_for = FileSignature {
            path: "/tmp/x",
            operation: FileOperation::Read,
            username: "",
            expires: Some(1_699_999_999),
        };
        let signature = signed_for.sign("tok").replace('+', "%2B");
        let query = format!("path=/tmp/x&signature={signature}&signature_expiration=1699999999");
        assert_eq!(
            address(Method::GET, &query),
            Err(Denied("signature is already expired"))
        );
    }
}
