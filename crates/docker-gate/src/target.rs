//! The path of a request, taken apart.

use crate::refusal::{Refusal, Result, quoted};

/// Before it, members of a container's description had other defaults, and a start
/// could change it.
const OLDEST_MINOR: u32 = 41;
const MAX_PATH: usize = 1024;

#[derive(Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// `/v1.41` or nothing, in front of the path that is sent on.
    pub version: String,
    pub segments: Vec<&'a str>,
}

impl<'a> Target<'a> {
    pub fn parse(path: &'a str) -> Result<Self> {
        let malformed = || {
            Refusal::forbidden(
                "the path is not written plainly: a-z, A-Z, 0-9, `._:@-` between single slashes, \
                 and nothing percent-encoded",
            )
        };
        let rest = path.strip_prefix('/').ok_or_else(malformed)?;
        let mut segments: Vec<&str> = rest.split('/').collect();
        let plain = |segment: &&str| {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._:@-".contains(&b);
            !segment.is_empty() && !segment.starts_with('.') && segment.bytes().all(allowed)
        };
        // `_ping` alone begins with an underscore; names have it inside.
        let is_plain = |segment: &&str| plain(&segment.replace('_', "-").as_str());
        if path.len() > MAX_PATH || !segments.iter().all(is_plain) {
            return Err(malformed());
        }
        let mut version = String::new();
        if let Some(given) = segments[0].strip_prefix("v1.") {
            let minor = given
                .parse::<u32>()
                .ok()
                .filter(|minor| minor.to_string() == given);
            match minor {
                Some(minor) if (OLDEST_MINOR..100).contains(&minor) => {
                    version = format!("/v1.{minor}");
                }
                _ => {
                    return Err(Refusal::forbidden(format!(
                        "version {} of the API is not permitted: it must be 1.{OLDEST_MINOR} or \
                         newer",
                        quoted(segments[0])
                    )));
                }
            }
            segments.remove(0);
        }
        Ok(Self { version, segments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_its_segments_and_a_version() {
        let target = Target::parse("/v1.41/containers/sandboxd-a/json").unwrap();
        assert_eq!(target.version, "/v1.41");
        assert_eq!(target.segments, ["containers", "sandboxd-a", "json"]);
        let target = Target::parse("/_ping").unwrap();
        assert_eq!(
            (target.version.as_str(), target.segments),
            ("", vec!["_ping"])
        );
        assert!(Target::parse("/images/a_b/c:1/json").is_ok());
    }

    #[test]
    fn a_path_that_two_readers_could_read_in_two_ways_is_refused() {
        for bad in [
            "",
            "*",
            "containers/json",
            "/",
            "//containers/json",
            "/containers//json",
            "/containers/json/",
            "/containers/./json",
            "/containers/../info",
            "/..",
            "/containers/sandboxd-a%2f..%2f..%2finfo/json",
            "/%63ontainers/json",
            "/containers/%2e%2e/json",
            "/containers/a;b/json",
            "/containers\\json",
            "/containers/.x/json",
            "/containers/a+b/json",
            "/containers/ä/json",
            "/containers/a~b/json",
            "/v1.41",
            "/v1.41/",
        ] {
            // Only the version: no path is left, and no call has that.
            if Target::parse(bad).is_ok_and(|target| !target.segments.is_empty()) {
                panic!("{bad:?}");
            }
        }
    }

    #[test]
    fn old_versions_of_the_api_are_refused() {
        for bad in [
            "v1.40", "v1.24", "v1.041", "v1.+41", "v1.", "v1.100", "v1.x", "v1.-1",
        ] {
            assert!(Target::parse(&format!("/{bad}/info")).is_err(), "{bad}");
        }
        assert!(Target::parse("/v1.41/info").is_ok());
        // Not a version: no call begins like this.
        assert!(Target::parse("/v2.0/info").unwrap().version.is_empty());
    }
}
