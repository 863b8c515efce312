//! Points in time as clients read them.

use std::time::{Duration, UNIX_EPOCH};

use sandbox_core::Timestamp;

/// RFC 3339, UTC, with milliseconds.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    // Nothing here is older than 1970 or younger than 9999.
    let ms = u64::try_from(time.0).unwrap_or(0).min(253_402_300_799_999);
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}

/// A time of RFC 3339 in UTC, with or without a fraction of a second.
pub(crate) fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let time = humantime::parse_rfc3339(text).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_whatever_their_value() {
        assert_eq!(
            rfc3339(Timestamp(1_700_000_000_123)),
            "2023-11-14T22:13:20.123Z"
        );
        assert_eq!(rfc3339(Timestamp(-5)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Timestamp(i64::MAX)), "9999-12-31T23:59:59.999Z");
    }
}
