//! SQL with its values, for either database.

use std::borrow::Cow;

use sandbox_core::Timestamp;

/// A value of a statement.
pub enum Value<'a> {
    Text(Option<Cow<'a, str>>),
    Integer(Option<i64>),
    Bool(bool),
    Bytes(&'a [u8]),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Some(text).into()
    }
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(text: Option<&'a str>) -> Self {
        // PostgreSQL refuses NUL in text, and with the statement everything else in it.
        Self::Text(text.map(|text| match text.contains('\0') {
            true => text.replace('\0', "\u{2400}").into(),
            false => text.into(),
        }))
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(Some(number))
    }
}

/// Numbers beyond what the column holds become the largest that it does.
impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Some(number).into()
    }
}

impl From<Option<u64>> for Value<'_> {
    fn from(number: Option<u64>) -> Self {
        Self::Integer(number.map(|number| i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<usize> for Value<'_> {
    fn from(number: usize) -> Self {
        (number as u64).into()
    }
}

impl From<Option<i32>> for Value<'_> {
    fn from(number: Option<i32>) -> Self {
        Self::Integer(number.map(i64::from))
    }
}

impl From<Timestamp> for Value<'_> {
    fn from(time: Timestamp) -> Self {
        time.0.into()
    }
}

impl From<Option<Timestamp>> for Value<'_> {
    fn from(time: Option<Timestamp>) -> Self {
        Self::Integer(time.map(|time| time.0))
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

/// One statement; `$1` is its first value in both databases.
pub struct Statement<'a> {
    pub sql: Cow<'static, str>,
    pub values: Vec<Value<'a>>,
    /// May be done again when it is not known whether it was done.
    pub repeatable: bool,
    /// The text is the same each time, so that preparing it pays.
    pub prepared: bool,
}

impl<'a> Statement<'a> {
    pub fn new<const N: usize>(sql: &'static str, values: [Value<'a>; N]) -> Self {
        Self {
            sql: sql.into(),
            values: values.into(),
            repeatable: true,
            prepared: true,
        }
    }

    /// One that is put together with [`Self::sql`] and [`Self::value`].
    pub fn begin(sql: &'static str) -> Self {
        Self {
            prepared: false,
            ..Self::new(sql, [])
        }
    }

    /// Its answer differs when it is done twice.
    pub fn once(mut self) -> Self {
        self.repeatable = false;
        self
    }

    /// Whether its answer is rows rather than a count.
    pub fn returns_rows(&self) -> bool {
        self.sql.starts_with("SELECT") || self.sql.contains(" RETURNING ")
    }

    pub fn sql(&mut self, text: &str) {
        self.sql.to_mut().push_str(text);
    }

    pub fn value(&mut self, value: impl Into<Value<'a>>) {
        self.values.push(value.into());
        let number = self.values.len();
        self.sql(&format!("${number}"));
    }

    /// Parenthesised values, with a comma before all but the first.
    pub fn row<const N: usize>(&mut self, row: [Value<'a>; N]) {
        self.sql(if self.values.is_empty() { "(" } else { ", (" });
        for (at, value) in row.into_iter().enumerate() {
            if at > 0 {
                self.sql(", ");
            }
            self.value(value);
        }
        self.sql(")");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_as_they_come() {
        let mut statement = Statement::begin("INSERT INTO t VALUES ");
        statement.row(["a".into(), 1_i64.into()]);
        statement.row(["b".into(), 2_i64.into()]);
        statement.sql(" LIMIT ");
        statement.value(3_usize);
        assert_eq!(
            statement.sql,
            "INSERT INTO t VALUES ($1, $2), ($3, $4) LIMIT $5"
        );
        assert_eq!(statement.values.len(), 5);
    }

    #[test]
    fn nul_in_text_is_shown_by_its_symbol() {
        let Value::Text(Some(text)) = Value::from("a\0b\0") else {
            panic!("not a text");
        };
        assert_eq!(text, "a\u{2400}b\u{2400}");
    }

    #[test]
    fn a_number_that_is_too_large_becomes_the_largest() {
        assert!(matches!(
            Value::from(u64::MAX),
            Value::Integer(Some(i64::MAX))
        ));
    }
}
