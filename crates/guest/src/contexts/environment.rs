//! Variables of the environment that are set for one run in an interpreter.
//!
//! They are set by code in the interpreter's own language, before the run and after it,
//! in the same exchange: no other run comes between.

use std::collections::BTreeMap;

use super::driver::Driver;

/// Code before the run, and after it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Around {
    pub before: String,
    pub after: String,
}

impl Around {
    /// `usual`: what variables are set to again, that programs of the sandbox have.
    pub fn of(
        driver: Driver,
        env: &BTreeMap<String, String>,
        usual: &BTreeMap<String, String>,
    ) -> Option<Self> {
        if env.is_empty() {
            return None;
        }
        let mut around = Self::default();
        for (name, value) in env {
            around.before += &statement(driver, name, Some(value));
            around.after += &statement(driver, name, usual.get(name));
        }
        Some(around)
    }
}

/// Each shows nothing, and leaves no name behind. JSON's strings are strings of Python,
/// JavaScript and R as well; none has a NUL or a name that is no identifier.
fn statement(driver: Driver, name: &str, value: Option<&String>) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    match (driver, value) {
        (Driver::Python, Some(value)) => {
            format!(
                "__import__('os').environ[{}] = {}\n",
                quoted(name),
                quoted(value)
            )
        }
        (Driver::Python, None) => {
            format!(
                "__import__('os').environ.pop({}, None) and None\n",
                quoted(name)
            )
        }
        (Driver::JavaScript, Some(value)) => {
            format!("process.env[{}] = {};\n", quoted(name), quoted(value))
        }
        (Driver::JavaScript, None) => format!("delete process.env[{}];\n", quoted(name)),
        (Driver::R, Some(value)) => {
            format!("invisible(Sys.setenv({name} = {}))\n", quoted(value))
        }
        (Driver::R, None) => format!("invisible(Sys.unsetenv({}))\n", quoted(name)),
        (Driver::Bash, Some(value)) => {
            format!("export {name}='{}'\n", value.replace('\'', r"'\''"))
        }
        (Driver::Bash, None) => format!("unset {name}\n"),
    }
}

/// Whether it is a name in every language.
pub(super) fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    #[test]
    fn values_are_data_in_every_language() {
        let env = map(&[("A", "x'\"\\$(y)\n"), ("B", "1")]);
        let usual = map(&[("B", "0")]);
        for (driver, before, after) in [
            (
                Driver::Python,
                "__import__('os').environ[\"A\"] = \"x'\\\"\\\\$(y)\\n\"\n__import__('os').environ[\"B\"] = \"1\"\n",
                "__import__('os').environ.pop(\"A\", None) and None\n__import__('os').environ[\"B\"] = \"0\"\n",
            ),
            (
                Driver::Bash,
                "export A='x'\\''\"\\$(y)\n'\nexport B='1'\n",
                "unset A\nexport B='0'\n",
            ),
        ] {
            let around = Around::of(driver, &env, &usual).unwrap();
            assert_eq!(
                (around.before.as_str(), around.after.as_str()),
                (before, after)
            );
        }
        assert_eq!(Around::of(Driver::R, &map(&[]), &usual), None);
    }

    #[test]
    fn a_name_is_an_identifier() {
        assert!(is_name("A_1"));
        for bad in ["", "1A", "A-B", "A=B", "A B", "ä", "A;x"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
