//! What JSON may be here beyond its grammar: no name twice in an object, and no
//! more members and items than any route takes.
//!
//! A map would take the last of two members without a word (RFC 8259, section 4,
//! leaves it open), and what reads the body before us may take the first. The bounds
//! keep a body of 40 MiB from becoming ten times that in memory.

use std::{collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

const MAX_MEMBERS: usize = 4096;
const MAX_ITEMS: usize = 65_536;

/// Reads the first value of `body` and keeps nothing of it.
pub(super) fn check(body: &[u8]) -> Result<(), serde_json::Error> {
    Strict.deserialize(&mut serde_json::Deserializer::from_slice(body))
}

#[derive(Clone, Copy)]
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut count = 0;
        while items.next_element_seed(self)?.is_some() {
            count += 1;
            if count > MAX_ITEMS {
                return Err(A::Error::custom(format!(
                    "an array has more than {MAX_ITEMS} items"
                )));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format!("a name is given twice: `{name}`")));
            }
            if names.len() == MAX_MEMBERS {
                return Err(A::Error::custom(format!(
                    "an object has more than {MAX_MEMBERS} members"
                )));
            }
            names.insert(name);
            members.next_value_seed(self)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_once_at_every_depth() {
        for bad in [
            r#"{"a": 1, "a": 1}"#,
            r#"{"a": {"b": [{"c": 1, "c": 2}]}}"#,
            r#"{"a": 1, "\u0061": 2}"#,
        ] {
            let error = check(bad.as_bytes()).unwrap_err();
            assert!(error.is_data(), "{bad}");
            assert!(error.to_string().contains("twice"), "{error}");
        }
        for good in [
            r#"{"a": {"a": 1}, "b": [{"a": 1}, {"a": null}]}"#,
            r#"{"": -1.5e3, "A": true, "a": "x"}"#,
        ] {
            check(good.as_bytes()).unwrap();
        }
    }

    #[test]
    fn objects_and_arrays_are_bounded() {
        let object = |count: usize| {
            let members: Vec<String> = (0..count).map(|i| format!("\"{i}\":0")).collect();
            format!("{{{}}}", members.join(","))
        };
        let array = |count: usize| format!("[{}]", vec!["0"; count].join(","));
        check(object(MAX_MEMBERS).as_bytes()).unwrap();
        check(object(MAX_MEMBERS + 1).as_bytes()).unwrap_err();
        check(array(MAX_ITEMS).as_bytes()).unwrap();
        check(array(MAX_ITEMS + 1).as_bytes()).unwrap_err();
    }

    #[test]
    fn depth_is_bounded() {
        for text in ["[".repeat(100_000), r#"{"a":"#.repeat(100_000)] {
            assert!(check(text.as_bytes()).is_err());
        }
    }
}
