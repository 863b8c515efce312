//! What uploads say of a file, kept as extended attributes of it: xattr(7).

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString},
    fs::File,
    path::Path,
};

use connectrpc::ConnectError;
use http::HeaderMap;
use rustix::{
    fs::{XattrFlags, fsetxattr, getxattr, listxattr},
    io::Errno,
};

use crate::error::from_io;

const HEADER: &str = "x-metadata-";
const ATTRIBUTE: &str = "user.e2b.";
/// An attribute's name has 255 bytes.
const MAX_KEY_BYTES: usize = 255 - ATTRIBUTE.len();
/// What ext4 keeps of one file, names and values.
const MAX_BYTES: usize = 4096;
/// The kernel's limit of the names of one file.
const MAX_LIST_BYTES: usize = 64 * 1024;

/// By key, without the prefix.
pub(crate) type Metadata = BTreeMap<String, String>;

/// What the headers of an upload say; all of it must be such as can be kept.
pub(crate) fn of_headers(headers: &HeaderMap) -> Result<Metadata, ConnectError> {
    let mut metadata = Metadata::new();
    for (name, value) in headers {
        let Some(key) = name
            .as_str()
            .strip_prefix(HEADER)
            .filter(|key| !key.is_empty())
        else {
            continue;
        };
        let is_text = |byte: &u8| (0x20..=0x7e).contains(byte);
        let value = value.as_bytes();
        if key.len() > MAX_KEY_BYTES || !value.iter().all(is_text) {
            return Err(ConnectError::invalid_argument(format!(
                "the metadata `{key}` is not printable ASCII, or its name is longer than {MAX_KEY_BYTES} bytes"
            )));
        }
        let value = String::from_utf8_lossy(value).into_owned();
        // The first of several.
        metadata.entry(key.to_owned()).or_insert(value);
    }
    let all: usize = metadata
        .iter()
        .map(|(key, value)| ATTRIBUTE.len() + key.len() + value.len())
        .sum();
    if all > MAX_BYTES {
        return Err(ConnectError::invalid_argument(format!(
            "the metadata takes {all} bytes, and may take {MAX_BYTES}"
        )));
    }
    Ok(metadata)
}

/// Of a file that has none yet. A file system without attributes keeps none, as the
/// contract has it; what is kept is read back.
pub(crate) fn write(file: &File, metadata: &Metadata, shown: &str) -> Result<(), ConnectError> {
    for (key, value) in metadata {
        let name = format!("{ATTRIBUTE}{key}");
        match fsetxattr(file, name, value.as_bytes(), XattrFlags::empty()) {
            Ok(()) => {}
            Err(Errno::NOTSUP) => return Ok(()),
            // Full, though the file itself found room.
            Err(Errno::TOOBIG | Errno::RANGE) => {
                return Err(from_io(&Errno::NOSPC.into(), shown));
            }
            Err(errno) => return Err(from_io(&errno.into(), shown)),
        }
    }
    Ok(())
}

/// What can be read of it, for it is never worth a failure.
pub(crate) fn read(path: &Path) -> Metadata {
    let mut names = vec![0; 1024];
    let length = match listxattr(path, &mut names[..]) {
        Err(Errno::RANGE) => {
            names.resize(MAX_LIST_BYTES, 0);
            listxattr(path, &mut names[..])
        }
        other => other,
    };
    let Ok(length) = length else {
        return Metadata::new();
    };
    names[..length]
        .split_inclusive(|byte| *byte == 0)
        .filter_map(|name| entry(path, CStr::from_bytes_with_nul(name).ok()?))
        .collect()
}

fn entry(path: &Path, name: &CStr) -> Option<(String, String)> {
    // Programs set them too: what is no text is no metadata.
    let key = name.to_str().ok()?.strip_prefix(ATTRIBUTE)?.to_owned();
    let mut value = vec![0; MAX_BYTES];
    let length = getxattr(path, CString::from(name), &mut value[..]).ok()?;
    value.truncate(length);
    Some((key, String::from_utf8(value).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                let value = http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
                (http::HeaderName::from_static(name), value)
            })
            .collect()
    }

    #[test]
    fn metadata_is_what_can_be_kept() {
        let given = headers(&[
            ("x-metadata-a", "1 2"),
            ("x-metadata-", "x"),
            ("x-other", "y"),
        ]);
        assert_eq!(
            of_headers(&given).unwrap(),
            Metadata::from([("a".into(), "1 2".into())])
        );
        let much = "x".repeat(4096);
        for (name, value) in [
            ("x-metadata-a", "ä"),
            ("x-metadata-a", "\t"),
            ("x-metadata-a", &much),
        ] {
            assert!(of_headers(&headers(&[(name, value)])).is_err());
        }
    }
}
