//! JSON that means the same to every reader.
//!
//! Docker's decoder takes the last of two equal names and does not tell upper from
//! lower case, so `Privileged` and `PRIVILEGED` are one name to it. A document that
//! could be read in two ways is not read at all.

use std::{collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::refusal::{Refusal, Result, quoted};

/// The value that `text` is.
pub fn parse(text: &[u8]) -> Result<Value> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    Plain
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| {
            Refusal::malformed(format!("the body is not JSON as it should be: {error}"))
        })
}

/// What Docker takes as not given: null, false, 0, "", a list or an object of nothing.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

#[derive(Clone, Copy)]
struct Plain;

impl<'de> DeserializeSeed<'de> for Plain {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Plain {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Value, E> {
        // Text ends there for what is written in C.
        if text.contains('\0') {
            return Err(E::custom("a text has a zero in it"));
        }
        Ok(text.into())
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> std::result::Result<Value, A::Error> {
        let mut names = HashSet::new();
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if name.contains('\0') || !names.insert(name.to_lowercase()) {
                return Err(A::Error::custom(format!(
                    "the name {} is there twice",
                    quoted(&name)
                )));
            }
            map.insert(name, members.next_value_seed(self)?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn two_readers_cannot_disagree_on_a_name_that_is_there_twice() {
        for bad in [
            r#"{"Privileged": true, "Privileged": false}"#,
            r#"{"Privileged": false, "privileged": true}"#,
            r#"{"a": [{"b": {"C": 1, "c": 2}}]}"#,
            r#"{"Privileged": 1, "Privile\u0067ed": 0}"#,
            "{} {}",
            "{",
            "",
            r#"{"a": "\u0000"}"#,
            "{\"a\": \"\u{0}\"}",
            r#"{"a": "\ud800"}"#,
            "\u{feff}{}",
        ] {
            assert_eq!(parse(bad.as_bytes()).unwrap_err().status, 400, "{bad}");
        }
        let deep = "[".repeat(10_000);
        assert!(parse(deep.as_bytes()).is_err());
        assert!(parse(b"{\"a\": \"\xff\"}").is_err());
    }

    #[test]
    fn values_are_as_they_were() {
        let text = r#"{"a": [1, -2, 18446744073709551615, 1.5, "x", null, true], "b": {"c": {}}}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(parse(text.as_bytes()).unwrap(), value);
    }

    #[test]
    fn nothing_is_empty_that_docker_would_take_as_given() {
        for empty in [
            json!(null),
            json!(false),
            json!(0),
            json!(0.0),
            json!(""),
            json!([]),
            json!({}),
        ] {
            assert!(is_empty(&empty), "{empty}");
        }
        for given in [
            json!(true),
            json!(-1),
            json!(" "),
            json!(["/:/x"]),
            json!({"80/tcp": {}}),
            json!([0]),
        ] {
            assert!(!is_empty(&given), "{given}");
        }
    }
}
