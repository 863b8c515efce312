//! What ours is called: names and labels of containers and volumes.

use serde_json::{Map, Value};

use crate::refusal::{Refusal, Result, quoted};

/// Of each container and volume.
pub const PREFIX: &str = "sandboxd-";
/// All labels of ours. Others are refused: programs beside Docker, proxies and
/// schedulers for example, take orders from the labels of containers.
pub const LABELS: &str = "dev.sandboxd.";
/// One of these is on each container and volume.
pub const OWN: [&str; 2] = ["dev.sandboxd.owner", "dev.sandboxd.kind"];

const MAX_NAME: usize = 128;
const MAX_LABEL_VALUE: usize = 1024;
const ID_CHARS: usize = 64;

/// `sandboxd-` and lower-case letters, digits, dashes.
pub fn is_ours(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !rest.is_empty() && name.len() <= MAX_NAME && rest.bytes().all(allowed)
}

pub fn check(what: &str, name: &str) -> Result<()> {
    if is_ours(name) {
        return Ok(());
    }
    Err(Refusal::forbidden(format!(
        "the {what} {} is not one of the service's: its name must begin with `{PREFIX}` and go \
         on with a-z, 0-9 and `-`",
        quoted(name)
    )))
}

/// A container's whole id: the beginning of one could be another one's name.
pub fn is_id(text: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.len() == ID_CHARS && text.bytes().all(hex)
}

/// Labels that something new is to carry.
pub fn check_labels(labels: &Map<String, Value>) -> Result<()> {
    for (key, value) in labels {
        let name = key.strip_prefix(LABELS).unwrap_or_default();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if name.is_empty() || key.len() > MAX_NAME || !name.bytes().all(plain) {
            return Err(Refusal::forbidden(format!(
                "the label {} is not permitted: labels begin with `{LABELS}`",
                quoted(key)
            )));
        }
        let fits = |text: &str| text.len() <= MAX_LABEL_VALUE && !text.contains('\0');
        if !value.as_str().is_some_and(fits) {
            return Err(Refusal::forbidden(format!(
                "the value of the label {} is not a short text",
                quoted(key)
            )));
        }
    }
    if has_own(labels) {
        return Ok(());
    }
    Err(Refusal::forbidden(format!(
        "one of the labels `{}` and `{}` must be given",
        OWN[0], OWN[1]
    )))
}

/// Whether something that exists carries the labels of ours.
pub fn has_own(labels: &Map<String, Value>) -> bool {
    OWN.iter()
        .any(|own| labels.get(*own).is_some_and(Value::is_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ours_by_prefix_and_have_no_character_that_could_be_a_path() {
        for good in ["sandboxd-a", "sandboxd-guest-0f", "sandboxd-1-2"] {
            assert!(is_ours(good), "{good}");
        }
        let long = format!("sandboxd-{}", "a".repeat(200));
        for bad in [
            "",
            "sandboxd-",
            "sandboxd",
            "sandboxD-a",
            "Sandboxd-a",
            "xsandboxd-a",
            "/sandboxd-a",
            "sandboxd-a/b",
            "sandboxd-..",
            "sandboxd-a.b",
            "sandboxd-A",
            "sandboxd-a\n",
            "sandboxd-ä",
            "sandboxd-a b",
            "sandboxd-a:b",
            "postgres",
            &long,
        ] {
            assert!(!is_ours(bad), "{bad:?}");
        }
    }

    #[test]
    fn an_id_is_whole() {
        assert!(is_id(&"0f".repeat(32)));
        for bad in ["0f0f0f0f0f0f", &"0F".repeat(32), &"0g".repeat(32), ""] {
            assert!(!is_id(bad), "{bad}");
        }
    }

    #[test]
    fn labels_give_no_orders_to_other_programs() {
        let check = |value: Value| check_labels(value.as_object().unwrap());
        use serde_json::json;
        assert!(check(json!({"dev.sandboxd.owner": "a"})).is_ok());
        assert!(check(json!({"dev.sandboxd.kind": "guest", "dev.sandboxd.guest": "1"})).is_ok());
        for bad in [
            json!({}),
            json!({"dev.sandboxd.sandbox": "a"}),
            json!({"dev.sandboxd.owner": 1}),
            json!({"dev.sandboxd.owner": "a", "traefik.enable": "true"}),
            json!({"dev.sandboxd.owner": "a", "ofelia.enabled": "true"}),
            json!({"dev.sandboxd.owner": "a", "dev.sandboxd.": "x"}),
            json!({"Dev.sandboxd.owner": "a"}),
        ] {
            assert!(check(bad.clone()).is_err(), "{bad}");
        }
    }
}
