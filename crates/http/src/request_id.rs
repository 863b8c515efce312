//! The name of one request, in its answer and in every line of its log.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");
const MAX_CHARS: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(String);

impl RequestId {
    /// The client's own id if it is harmless, or a new one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        headers
            .get(HEADER)
            .and_then(|value| value.to_str().ok())
            .filter(|text| acceptable(text))
            .map_or_else(
                || Self(Uuid::now_v7().to_string()),
                |text| Self(text.to_owned()),
            )
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn header_value(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn acceptable(text: &str) -> bool {
    (1..=MAX_CHARS).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_for(value: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_str(value).unwrap());
        RequestId::of(&headers).to_string()
    }

    #[test]
    fn a_clients_id_is_kept_unless_it_could_forge_a_log_line() {
        assert_eq!(id_for("trace-1.A_z"), "trace-1.A_z");
        for bad in ["", "a b", "a\"b", "a/b", &"a".repeat(129)] {
            let id = id_for(bad);
            assert_eq!(id.parse::<Uuid>().unwrap().get_version_num(), 7, "{bad}");
        }
    }
}
