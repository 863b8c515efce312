//! `Range` and the validators of a file (RFC 9110, sections 13 and 14).

use http::{HeaderMap, header};

/// The bytes that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    All,
    /// From an offset, to a last byte or to the end.
    From {
        first: u64,
        last: Option<u64>,
    },
    /// The last bytes.
    Suffix(u64),
}

/// Where a range lies in a file: the first byte and the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Range {
    /// What cannot be read, has another unit or several parts is all of the
    /// file, as the standard allows.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        headers
            .get(header::RANGE)
            .and_then(|value| value.to_str().ok())
            .and_then(parse)
            .unwrap_or(Self::All)
    }

    /// The slice of a file of this size; `None` if it has no such bytes.
    pub(crate) fn within(self, size: u64) -> Option<Slice> {
        let end = size.checked_sub(1)?;
        let slice = match self {
            Self::All => Slice {
                first: 0,
                last: end,
            },
            Self::From { first, last } => Slice {
                first,
                last: last.unwrap_or(end).min(end),
            },
            Self::Suffix(0) => return None,
            Self::Suffix(count) => Slice {
                first: size.saturating_sub(count),
                last: end,
            },
        };
        (slice.first <= slice.last).then_some(slice)
    }
}

impl Slice {
    pub(crate) fn len(self) -> u64 {
        self.last - self.first + 1
    }
}

fn parse(text: &str) -> Option<Range> {
    let (unit, set) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // A number beyond u64 lies behind the end of every file.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    if first.is_empty() {
        return number(last).map(Range::Suffix);
    }
    let first = number(first)?;
    let last = match last {
        "" => None,
        last => Some(number(last)?),
    };
    if last.is_some_and(|last| last < first) {
        return None;
    }
    Some(Range::From { first, last })
}

/// Whether the client has this version already.
pub(crate) fn none_match(headers: &HeaderMap, etag: &str) -> bool {
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|tag| tag.trim())
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

/// Whether a part of this version is what the client wants, rather than all.
pub(crate) fn if_range(headers: &HeaderMap, etag: Option<&str>) -> bool {
    match headers.get(header::IF_RANGE) {
        None => true,
        // A date or a weak tag never matches a strong one.
        Some(value) => etag.is_some_and(|etag| value.as_bytes() == etag.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    fn slice(range: &str, size: u64) -> Option<(u64, u64)> {
        Range::of(&headers(header::RANGE, range))
            .within(size)
            .map(|slice| (slice.first, slice.last))
    }

    #[test]
    fn ranges_are_cut_to_the_file() {
        for (range, size, want) in [
            ("bytes=0-0", 10, Some((0, 0))),
            ("bytes=2-5", 10, Some((2, 5))),
            ("bytes=2-", 10, Some((2, 9))),
            ("Bytes=2-99999999999999999999999", 10, Some((2, 9))),
            ("bytes=-3", 10, Some((7, 9))),
            ("bytes=-30", 10, Some((0, 9))),
            ("bytes=10-", 10, None),
            ("bytes=0-", 0, None),
            ("bytes=-0", 10, None),
            ("bytes=-1", 0, None),
        ] {
            assert_eq!(slice(range, size), want, "{range} of {size}");
        }
    }

    #[test]
    fn what_is_not_one_range_of_bytes_is_the_whole_file() {
        for odd in [
            "bytes=5-2",
            "bytes=0-1,3-4",
            "lines=1-2",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=+1-2",
            "0-1",
        ] {
            assert_eq!(Range::of(&headers(header::RANGE, odd)), Range::All, "{odd}");
        }
    }

    #[test]
    fn a_tag_matches_alone_in_a_list_weakly_or_by_star() {
        for tags in ["\"a\"", "\"x\", \"a\"", "W/\"a\"", "*"] {
            assert!(
                none_match(&headers(header::IF_NONE_MATCH, tags), "\"a\""),
                "{tags}"
            );
        }
        for tags in ["\"b\"", "a", ""] {
            assert!(
                !none_match(&headers(header::IF_NONE_MATCH, tags), "\"a\""),
                "{tags}"
            );
        }
    }

    #[test]
    fn a_part_of_another_version_is_not_sent() {
        let same = headers(header::IF_RANGE, "\"a\"");
        assert!(if_range(&same, Some("\"a\"")));
        assert!(!if_range(&same, Some("\"b\"")));
        assert!(!if_range(&same, None));
        assert!(if_range(&HeaderMap::new(), None));
        assert!(!if_range(
            &headers(header::IF_RANGE, "W/\"a\""),
            Some("\"a\"")
        ));
    }
}
