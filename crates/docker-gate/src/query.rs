//! The query of a request: parsed once, written anew from what was understood.

use std::collections::BTreeMap;

use crate::refusal::{Refusal, Result, quoted};

pub struct Query {
    given: BTreeMap<String, String>,
    kept: form_urlencoded::Serializer<'static, String>,
}

impl Query {
    pub fn parse(text: &str) -> Result<Self> {
        let mut given = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            if given.contains_key(name.as_ref()) {
                return Err(Refusal::malformed(format!(
                    "the parameter {} is there twice",
                    quoted(&name)
                )));
            }
            given.insert(name.into_owned(), value.into_owned());
        }
        Ok(Self {
            given,
            kept: form_urlencoded::Serializer::new(String::new()),
        })
    }

    /// A parameter, taken out; `None` when it says nothing.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.given.remove(name).filter(|value| !value.is_empty())
    }

    pub fn keep(&mut self, name: &str, value: &str) {
        self.kept.append_pair(name, value);
    }

    /// Keeps a parameter that is true or false.
    pub fn flag(&mut self, name: &str) -> Result<bool> {
        let value = match self.take(name).as_deref() {
            None | Some("0" | "false" | "False") => false,
            Some("1" | "true" | "True") => true,
            Some(_) => return Err(not_permitted(name, "must be true or false")),
        };
        if value {
            self.keep(name, "1");
        }
        Ok(value)
    }

    /// Keeps a parameter that `is` permits.
    pub fn text(&mut self, name: &str, rule: &str, is: impl FnOnce(&str) -> bool) -> Result<()> {
        match self.take(name) {
            None => Ok(()),
            Some(value) if is(&value) => {
                self.keep(name, &value);
                Ok(())
            }
            Some(_) => Err(not_permitted(name, rule)),
        }
    }

    /// What was kept, with its question mark, if nothing else says something.
    pub fn close(mut self) -> Result<String> {
        let is_empty = |value: &str| matches!(value, "" | "0" | "false");
        if let Some((name, _)) = self.given.iter().find(|(_, value)| !is_empty(value)) {
            return Err(Refusal::forbidden(format!(
                "the parameter {} is not permitted",
                quoted(name)
            )));
        }
        let kept = self.kept.finish();
        Ok(if kept.is_empty() {
            kept
        } else {
            format!("?{kept}")
        })
    }
}

fn not_permitted(name: &str, rule: &str) -> Refusal {
    Refusal::forbidden(format!("the parameter `{name}` {rule}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_is_dropped_and_what_is_unknown_refused() {
        let mut query = Query::parse("v=true&force=0&link=false&name=").unwrap();
        assert!(query.flag("v").unwrap());
        assert!(!query.flag("force").unwrap());
        assert_eq!(query.close().unwrap(), "?v=1");
        let query = Query::parse("link=1").unwrap();
        assert_eq!(query.close().unwrap_err().status, 403);
    }

    #[test]
    fn a_parameter_that_two_readers_could_read_in_two_ways_is_refused() {
        for bad in ["a=1&a=2", "a=1&%61=2", "a&a"] {
            assert!(Query::parse(bad).is_err(), "{bad}");
        }
        // A semicolon is no separator here, and cannot become one behind.
        let mut query = Query::parse("signal=KILL;x=1").unwrap();
        assert!(query.text("signal", "", |text| text == "KILL").is_err());
        let mut query = Query::parse("path=/workspace%26x%3d1").unwrap();
        query.text("path", "", |_| true).unwrap();
        assert_eq!(query.close().unwrap(), "?path=%2Fworkspace%26x%3D1");
    }

    #[test]
    fn flags_are_true_or_false() {
        for bad in ["a=yes", "a=2", "a=%00", "a=1 "] {
            assert!(Query::parse(bad).unwrap().flag("a").is_err(), "{bad}");
        }
    }
}
