//! What code shows, from our bundles of MIME types to the interpreter's named forms.

use std::collections::BTreeMap;

use e2b_wire::interpreter::Output;
use serde_json::{Map, Value};

const CHART: &str = "application/vnd.sandboxd.chart+json";
const DATA: &str = "application/vnd.sandboxd.data+json";

/// A bundle; `None` where it is none, for it comes from inside the sandbox.
pub(super) fn output(bundle: &str, is_main_result: bool) -> Option<Output> {
    let bundle: Map<String, Value> = serde_json::from_str(bundle).ok()?;
    let mut output = Output {
        is_main_result,
        ..Output::default()
    };
    let mut extra = BTreeMap::new();
    for (kind, value) in bundle {
        let form = match kind.as_str() {
            "text/plain" => {
                output.text = text(&value).map(unquoted);
                continue;
            }
            "application/json" => {
                output.json = Some(parsed(value));
                continue;
            }
            CHART => {
                output.chart = Some(parsed(value));
                continue;
            }
            DATA => {
                output.data = Some(parsed(value));
                continue;
            }
            "text/html" => &mut output.html,
            "text/markdown" => &mut output.markdown,
            "image/svg+xml" => &mut output.svg,
            "image/png" => &mut output.png,
            "image/jpeg" => &mut output.jpeg,
            "application/pdf" => &mut output.pdf,
            "text/latex" => &mut output.latex,
            "application/javascript" => &mut output.javascript,
            _ => {
                extra.insert(kind, value);
                continue;
            }
        };
        *form = text(&value);
    }
    output.extra = (!extra.is_empty()).then_some(extra);
    Some(output)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// JSON travels in bundles as text.
fn parsed(value: Value) -> Value {
    match value {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    }
}

/// The text of a string is shown without the quotes of its `repr`.
fn unquoted(text: String) -> String {
    let quoted = |quote: char| {
        (text.len() >= 2 && text.starts_with(quote) && text.ends_with(quote))
            .then(|| text[1..text.len() - 1].to_owned())
    };
    quoted('\'').or_else(|| quoted('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_form_has_its_name_and_the_rest_is_extra() {
        let bundle = json!({
            "text/plain": "'a'", "text/html": "<p>", "image/png": "iVBO", "application/json": "{\"a\": 1}",
            "text/latex": "$x$", CHART: "{\"type\": \"line\", \"x_unit\": null}", DATA: "{\"c\": [1]}",
            "application/x-own": "y",
        });
        let output = output(&bundle.to_string(), true).unwrap();
        assert_eq!(
            serde_json::to_value(output).unwrap(),
            json!({
                "is_main_result": true, "text": "a", "html": "<p>", "png": "iVBO", "json": {"a": 1},
                "latex": "$x$", "chart": {"type": "line", "x_unit": null}, "data": {"c": [1]},
                "extra": {"application/x-own": "y"},
            })
        );
    }

    #[test]
    fn what_is_no_bundle_is_nothing() {
        for bad in ["", "[]", "1", "{"] {
            assert_eq!(output(bad, false), None, "{bad}");
        }
    }

    #[test]
    fn quotes_of_a_string_are_left_out() {
        for (text, shown) in [
            ("'a'", "a"),
            ("\"it's\"", "it's"),
            ("'", "'"),
            ("''", ""),
            ("['a']", "['a']"),
            ("2", "2"),
        ] {
            assert_eq!(unquoted(text.to_owned()), shown);
        }
    }
}
