//! A JSON object read member by member: what is not asked for is refused.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::{
    json,
    refusal::{Refusal, Result, quoted},
};

/// The members of an object that came, and those of the one that is sent on.
pub struct Fields {
    /// Before each name in an explanation, `HostConfig.` for example.
    path: String,
    given: Map<String, Value>,
    kept: Map<String, Value>,
}

impl Fields {
    pub fn open(path: &str, value: Value) -> Result<Self> {
        let Value::Object(given) = value else {
            let what = if path.is_empty() { "the body" } else { path };
            return Err(Refusal::malformed(format!("{what} is not a JSON object")));
        };
        let dot = if path.is_empty() { "" } else { "." };
        Ok(Self {
            path: format!("{path}{dot}"),
            given,
            kept: Map::new(),
        })
    }

    /// The member's place, for an explanation.
    pub fn at(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    pub fn refuse(&self, name: &str, why: &str) -> Refusal {
        Refusal::forbidden(format!("{} {why}", self.at(name)))
    }

    /// A member, taken out; `None` when it says nothing.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.given
            .remove(name)
            .filter(|value| !json::is_empty(value))
    }

    pub fn keep(&mut self, name: &str, value: impl Into<Value>) {
        self.kept.insert(name.into(), value.into());
    }

    /// Keeps a bool as it is: for some members false is not the same as nothing.
    pub fn flag(&mut self, name: &str) -> Result<Option<bool>> {
        match self.given.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => {
                self.keep(name, value);
                Ok(Some(value))
            }
            Some(_) => Err(self.refuse(name, "is not true or false")),
        }
    }

    pub fn number(&mut self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match value.as_i64().filter(|number| range.contains(number)) {
            Some(number) => {
                self.keep(name, number);
                Ok(Some(number))
            }
            None => {
                let why = format!(
                    "must be a whole number from {} to {}",
                    range.start(),
                    range.end()
                );
                Err(self.refuse(name, &why))
            }
        }
    }

    /// Keeps a text that `is` permits; `rule` says which.
    pub fn text(
        &mut self,
        name: &str,
        rule: &str,
        is: impl FnOnce(&str) -> bool,
    ) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) if is(&text) => {
                self.keep(name, text.as_str());
                Ok(Some(text))
            }
            Some(_) => Err(self.refuse(name, rule)),
        }
    }

    /// A list of texts, taken out.
    pub fn take_texts(&mut self, name: &str) -> Result<Option<Vec<String>>> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let texts = value.as_array().and_then(|items| {
            let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>()
        });
        texts
            .map(Some)
            .ok_or_else(|| self.refuse(name, "is not a list of texts"))
    }

    /// A list, taken out.
    pub fn take_list(&mut self, name: &str) -> Result<Option<Vec<Value>>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(self.refuse(name, "is not a list")),
        }
    }

    /// An object, taken out.
    pub fn take_object(&mut self, name: &str) -> Result<Option<Map<String, Value>>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(members)) => Ok(Some(members)),
            Some(_) => Err(self.refuse(name, "is not an object")),
        }
    }

    /// What was kept, if nothing is left that says something.
    pub fn close(self) -> Result<Value> {
        match self.given.iter().find(|(_, value)| !json::is_empty(value)) {
            None => Ok(Value::Object(self.kept)),
            Some((name, _)) => Err(Refusal::forbidden(format!(
                "{} is not permitted",
                quoted(&self.at(name))
            ))),
        }
    }
}
