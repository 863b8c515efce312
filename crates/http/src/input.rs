//! What a run is given, checked: its time, environment, arguments and files.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use guest_client::messages::WriteRequest;
use sandbox_core::ErrorCode;
use serde::{Deserialize, Deserializer, Serialize, de};
use utoipa::{
    ToSchema,
    openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema, Type},
};

use crate::{
    HttpSettings,
    problem::{ApiError, ApiResult},
};

/// The kernel takes no longer string (MAX_ARG_STRLEN, execve(2)).
const MAX_STRING_BYTES: usize = 128 * 1024 - 1;
/// Of arguments, and of the environment; the kernel takes 2 MiB of both.
const MAX_STRINGS_BYTES: usize = 512 * 1024;
const MAX_STRINGS: usize = 1024;
const MAX_FILES: usize = 256;
const MIN_TIMEOUT: Duration = Duration::from_millis(1);

/// The default mode of a file that is written.
pub(crate) const FILE_MODE: u32 = 0o644;
const MAX_MODE: u32 = 0o777;

/// How `content` is written in the JSON.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Encoding {
    #[default]
    Utf8,
    Base64,
}

impl Encoding {
    pub(crate) fn decode(self, field: &str, content: String) -> ApiResult<Vec<u8>> {
        match self {
            Self::Utf8 => Ok(content.into_bytes()),
            Self::Base64 => STANDARD
                .decode(content)
                .map_err(|error| ApiError::invalid(format!("`{field}` is not base64: {error}"))),
        }
    }
}

/// A file that is put in the workspace before the run.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputFile {
    /// Relative to the workspace; missing directories are made.
    path: String,
    content: String,
    #[serde(default)]
    encoding: Encoding,
    /// Permissions: octal as a string, such as `"0644"` (the default), or their value as a number.
    #[serde(default, deserialize_with = "mode")]
    #[schema(schema_with = mode_schema)]
    mode: Option<u32>,
}

pub(crate) fn files(files: Vec<InputFile>) -> ApiResult<Vec<WriteRequest>> {
    if files.len() > MAX_FILES {
        return Err(ApiError::invalid(format!(
            "`files` has more than {MAX_FILES} entries"
        )));
    }
    files
        .into_iter()
        .map(|file| {
            Ok(WriteRequest {
                path: file.path,
                data: file.encoding.decode("content", file.content)?,
                mode: file.mode.unwrap_or(FILE_MODE),
                create_dirs: true,
                ..Default::default()
            })
        })
        .collect()
}

pub(crate) fn timeout(seconds: Option<f64>, settings: &HttpSettings) -> ApiResult<Duration> {
    let Some(seconds) = seconds else {
        return Ok(settings.default_timeout);
    };
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| (MIN_TIMEOUT..=settings.max_timeout).contains(time))
        .ok_or_else(|| {
            ApiError::invalid(format!(
                "`timeout_seconds` is not between {} and {}",
                MIN_TIMEOUT.as_secs_f64(),
                settings.max_timeout.as_secs_f64()
            ))
        })
}

/// The source of a run, or a command.
pub(crate) fn code(field: &str, text: String, settings: &HttpSettings) -> ApiResult<String> {
    if text.trim().is_empty() {
        return Err(ApiError::invalid(format!("`{field}` is empty")));
    }
    let limit = settings.max_code_bytes;
    if text.len() > limit {
        return Err(ApiError::new(
            ErrorCode::BodyTooLarge,
            format!("`{field}` is longer than {limit} bytes"),
        ));
    }
    Ok(text)
}

/// A command goes to the shell as one argument.
pub(crate) fn command(text: &str) -> ApiResult<()> {
    if text.contains('\0') {
        return Err(ApiError::invalid("`command` has a NUL byte"));
    }
    Ok(())
}

pub(crate) fn environment(env: &BTreeMap<String, String>) -> ApiResult<()> {
    for name in env.keys() {
        let mut bytes = name.bytes();
        let good = bytes
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !good {
            return Err(ApiError::invalid(
                "`env` has a name that is not [A-Za-z_][A-Za-z0-9_]*",
            ));
        }
    }
    strings(
        "env",
        env.len(),
        env.iter().map(|(name, value)| (name.len() + 1, value)),
    )
}

pub(crate) fn arguments(field: &str, args: &[String]) -> ApiResult<()> {
    strings(field, args.len(), args.iter().map(|arg| (0, arg)))
}

/// What execve(2) would refuse, said in the request's words.
fn strings<'a>(
    field: &str,
    count: usize,
    items: impl Iterator<Item = (usize, &'a String)>,
) -> ApiResult<()> {
    let mut total = 0;
    if count > MAX_STRINGS {
        return Err(ApiError::invalid(format!(
            "`{field}` has more than {MAX_STRINGS} entries"
        )));
    }
    for (extra, item) in items {
        if item.contains('\0') {
            return Err(ApiError::invalid(format!("`{field}` has a NUL byte")));
        }
        if item.len() + extra > MAX_STRING_BYTES {
            return Err(ApiError::invalid(format!(
                "`{field}` has an entry longer than {MAX_STRING_BYTES} bytes"
            )));
        }
        total += item.len() + extra;
    }
    if total > MAX_STRINGS_BYTES {
        return Err(ApiError::invalid(format!(
            "`{field}` is longer than {MAX_STRINGS_BYTES} bytes"
        )));
    }
    Ok(())
}

/// `"0644"` is octal as chmod(1) reads it; 420 is the same as a number.
pub(crate) fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Wire {
        Number(u32),
        Text(String),
    }
    let bad = || de::Error::custom("a mode is \"0\" to \"0777\", or its value as a number");
    let value = match Option::<Wire>::deserialize(deserializer).map_err(|_| bad())? {
        None => return Ok(None),
        Some(Wire::Number(value)) => value,
        Some(Wire::Text(text)) => {
            let digits = text.strip_prefix("0o").unwrap_or(&text);
            if !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(bad());
            }
            u32::from_str_radix(digits, 8).map_err(|_| bad())?
        }
    };
    if value > MAX_MODE {
        return Err(bad());
    }
    Ok(Some(value))
}

/// What [`mode`] takes, in the document.
pub(crate) fn mode_schema() -> Schema {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some("^(0o)?0*[0-7]{1,3}$"));
    let number = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(0))
        .maximum(Some(MAX_MODE));
    AnyOfBuilder::new()
        .item(text)
        .item(number)
        .item(ObjectBuilder::new().schema_type(Type::Null))
        .description(Some(
            "Permissions: octal as a string, such as `\"0644\"` (the default), or their value as a \
             number.",
        ))
        .examples(["0644"])
        .build()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LanguageTable;

    fn settings() -> HttpSettings {
        HttpSettings::new(LanguageTable::built_in().unwrap())
    }

    #[test]
    fn a_timeout_is_refused_outside_its_range() {
        let settings = settings();
        for bad in [0.0, -1.0, 0.0001, 3600.1, 1e300, f64::NAN, f64::INFINITY] {
            assert!(timeout(Some(bad), &settings).is_err(), "{bad}");
        }
        for (good, ms) in [(0.001, 1), (1.5, 1500), (3600.0, 3_600_000)] {
            assert_eq!(
                timeout(Some(good), &settings).unwrap(),
                Duration::from_millis(ms)
            );
        }
        assert_eq!(timeout(None, &settings).unwrap(), Duration::from_secs(30));
    }

    #[test]
    fn an_environment_is_refused_that_no_process_can_have() {
        let env = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        for (name, value) in [
            ("", "x"),
            ("1A", "x"),
            ("A=B", "x"),
            ("A B", "x"),
            ("Ä", "x"),
            ("A\0", "x"),
            ("A", "\0"),
            ("A", &"x".repeat(MAX_STRING_BYTES)),
        ] {
            assert!(environment(&env(name, value)).is_err(), "{name:?}");
        }
        assert!(environment(&env("_a1", "any=thing\n")).is_ok());
        let many = (0..=MAX_STRINGS).map(|i| (format!("V{i}"), String::new()));
        assert!(environment(&many.collect()).is_err());
    }

    #[test]
    fn arguments_are_bounded_one_by_one_and_together() {
        assert!(arguments("args", &["a\n".into(), String::new()]).is_ok());
        assert!(arguments("args", &["a\0".into()]).is_err());
        assert!(arguments("args", &["x".repeat(MAX_STRING_BYTES + 1)]).is_err());
        assert!(arguments("args", &vec!["x".repeat(100_000); 6]).is_err());
    }

    #[test]
    fn a_mode_is_octal_text_or_a_number_and_has_no_setuid_bit() {
        let read = |json: &str| {
            let body = format!(r#"{{"path":"a","content":"","mode":{json}}}"#);
            serde_json::from_str::<InputFile>(&body).map(|file| file.mode)
        };
        for (json, value) in [
            ("\"0644\"", Some(0o644)),
            ("\"755\"", Some(0o755)),
            ("\"0o600\"", Some(0o600)),
            ("420", Some(0o644)),
            ("null", None),
        ] {
            assert_eq!(read(json).unwrap(), value, "{json}");
        }
        for bad in [
            "644", "755", "\"4755\"", "\"rw\"", "\"+644\"", "\"\"", "-1", "true",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
