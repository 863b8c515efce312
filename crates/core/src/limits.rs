//! How much of the machine one sandbox may take.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes; reads `512m`, `1.5g`, `64k`, `1048576` (powers of 1024).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl ByteSize {
    pub const fn mib(n: u64) -> Self {
        Self(n * 1024 * 1024)
    }

    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a size such as 512m, 2g or 1048576");
        let lower = text.trim().to_ascii_lowercase();
        let lower = lower
            .strip_suffix("ib")
            .or(lower.strip_suffix('b'))
            .unwrap_or(&lower);
        let (number, unit) = match lower.chars().last() {
            Some('k') => (&lower[..lower.len() - 1], 1u64 << 10),
            Some('m') => (&lower[..lower.len() - 1], 1 << 20),
            Some('g') => (&lower[..lower.len() - 1], 1 << 30),
            Some('t') => (&lower[..lower.len() - 1], 1 << 40),
            _ => (lower, 1),
        };
        let number: f64 = number.trim().parse().map_err(|_| bad())?;
        let bytes = number * unit as f64;
        if bytes.is_finite() && (0.0..9e18).contains(&bytes) {
            Ok(Self(bytes as u64))
        } else {
            Err(bad())
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, name) in [(1u64 << 30, "g"), (1 << 20, "m"), (1 << 10, "k")] {
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Wire {
            Number(u64),
            Text(String),
        }
        match Wire::deserialize(deserializer)? {
            Wire::Number(bytes) => Ok(Self(bytes)),
            Wire::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

/// The ceiling of one sandbox, all its processes together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Memory, and tmpfs with it; nothing is swapped beyond it.
    pub memory: ByteSize,
    /// Processors; 0.5 is half of one.
    pub cpus: f64,
    /// Processes and threads.
    pub pids: u32,
    /// Bytes of the workspace.
    pub disk: ByteSize,
    /// Each of /tmp, /var/tmp and /dev/shm.
    pub tmp: ByteSize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: ByteSize::mib(512),
            cpus: 1.0,
            pids: 256,
            disk: ByteSize::mib(1024),
            tmp: ByteSize::mib(64),
        }
    }
}

/// Which mechanism enforces which limit, for example `memory` -> `cgroup v2`.
pub type Enforcement = BTreeMap<&'static str, &'static str>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_the_usual_ways_of_writing_them() {
        for (text, bytes) in [
            ("512m", 512 << 20),
            ("512M", 512 << 20),
            ("512MiB", 512 << 20),
            ("1.5g", 3 << 29),
            ("64kb", 64 << 10),
            ("1048576", 1 << 20),
            ("0", 0),
        ] {
            assert_eq!(text.parse::<ByteSize>(), Ok(ByteSize(bytes)), "{text}");
        }
        for bad in ["", "m", "-1", "1x", "nan", "inf", "1e30g"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
        assert_eq!(ByteSize::mib(512).to_string(), "512m");
    }
}
