//! Names of images, taken apart and put together in one way.

use crate::refusal::{Refusal, Result, quoted};

const MAX_NAME: usize = 255;

/// `[host[:port]/]path[:tag][@digest]`, checked to be a plain path of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    repository: String,
    /// A tag, or a digest; `latest` where the name has none.
    version: Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    Tag(String),
    Digest(String),
    /// The repository is `sha256` or the like: the id of an image.
    Id(String),
}

impl ImageName {
    pub fn parse(text: &str) -> Result<Self> {
        let plain = |part: &str| {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-:@".contains(&b);
            part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.bytes().all(allowed)
        };
        let bad = || Refusal::forbidden(format!("{} is not the name of an image", quoted(text)));
        if text.len() > MAX_NAME || !text.split('/').all(plain) {
            return Err(bad());
        }
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        let last = name.rfind('/').map_or(0, |slash| slash + 1);
        let (repository, tag) = match name[last..].split_once(':') {
            Some((_, tag)) => (&name[..name.len() - tag.len() - 1], Some(tag)),
            None => (name, None),
        };
        let is_hash = |text: &str| {
            text.split_once(':')
                .is_some_and(|(algorithm, hash)| algorithm == "sha256" && crate::names::is_id(hash))
        };
        let version = match (tag, digest) {
            (Some(hash), None) if repository == "sha256" => {
                if !crate::names::is_id(hash) {
                    return Err(bad());
                }
                Version::Id(hash.into())
            }
            (None, Some(digest)) if is_hash(digest) => Version::Digest(digest.into()),
            // With both, Docker looks at the digest alone, and a pattern would at the tag.
            (_, Some(_)) => return Err(bad()),
            (Some(tag), None) if !tag.is_empty() && !tag.contains(':') => Version::Tag(tag.into()),
            (Some(_), None) => return Err(bad()),
            (None, None) => Version::Tag("latest".into()),
        };
        Ok(Self {
            repository: repository.to_owned(),
            version,
        })
    }

    /// Of a pull: the name without its version, and the version. Docker would pull
    /// every tag of a repository when none is named.
    pub fn to_pull(&self) -> Result<(&str, &str)> {
        match &self.version {
            Version::Tag(version) | Version::Digest(version) => Ok((&self.repository, version)),
            Version::Id(_) => Err(Refusal::forbidden("an image cannot be pulled by its id")),
        }
    }

    pub fn text(&self) -> String {
        let Self {
            repository,
            version,
        } = self;
        match version {
            Version::Tag(tag) => format!("{repository}:{tag}"),
            Version::Digest(digest) => format!("{repository}@{digest}"),
            Version::Id(id) => format!("sha256:{id}"),
        }
    }
}

/// Which images there may be: a name, in which `*` stands for any characters.
#[derive(Clone, Debug)]
pub struct ImagePattern(String);

impl ImagePattern {
    /// `None` when it can match no image.
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains('*') {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-:@/*".contains(&b);
            return text.bytes().all(allowed).then(|| Self(text.to_owned()));
        }
        // So that `worker` and `worker:latest` are the same, as they are to Docker.
        ImageName::parse(text).ok().map(|name| Self(name.text()))
    }

    pub fn matches(&self, name: &ImageName) -> bool {
        glob(self.0.as_bytes(), name.text().as_bytes())
    }
}

/// In linear space and at most quadratic time: one star at a time is remembered.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, t));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[t] {
            p += 1;
            t += 1;
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            p = at + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_in_one_way() {
        let hash = "0f".repeat(32);
        for (text, written) in [
            ("worker", "worker:latest".to_owned()),
            ("worker:1", "worker:1".to_owned()),
            ("localhost:5000/a/b", "localhost:5000/a/b:latest".to_owned()),
            ("localhost:5000/a/b:2", "localhost:5000/a/b:2".to_owned()),
            (&format!("a/b@sha256:{hash}"), format!("a/b@sha256:{hash}")),
            (&format!("sha256:{hash}"), format!("sha256:{hash}")),
        ] {
            assert_eq!(ImageName::parse(text).unwrap().text(), written, "{text}");
        }
    }

    #[test]
    fn a_name_cannot_leave_its_place_in_a_path() {
        let hash = "0f".repeat(32);
        let both = format!("a:1@sha256:{hash}");
        for bad in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            "../a",
            "a/../b",
            "./a",
            "a%2fb",
            "a?b",
            "a#b",
            "a b",
            "a\n",
            "-a",
            "a:",
            "a:b:c",
            "a@",
            "a@b",
            "a@sha256:1",
            "sha256:1",
            "ä",
            &both,
        ] {
            assert!(ImageName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, matches) in [
            ("worker", "worker:latest", true),
            ("worker", "worker", true),
            ("worker", "worker:2", false),
            ("worker", "evil/worker", false),
            ("worker", "worker2", false),
            ("ghcr.io/us/*", "ghcr.io/us/worker:1", true),
            ("ghcr.io/us/*", "ghcr.io/them/us/worker:1", false),
            ("*:pinned", "a/b:pinned", true),
            ("a*b*c", "axxbyyc:latest", false),
            ("a*b*c:*", "axxbyyc:latest", true),
            ("*", "anything", true),
        ] {
            let pattern = ImagePattern::parse(pattern).unwrap();
            let name = ImageName::parse(name).unwrap();
            assert_eq!(pattern.matches(&name), matches, "{pattern:?} {name:?}");
        }
        assert!(ImagePattern::parse("").is_none());
        assert!(ImagePattern::parse("a b").is_none());
        assert!(!glob(b"a*a*a*a*a*b", "a".repeat(200).as_bytes()));
    }
}
