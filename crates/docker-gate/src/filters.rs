//! The filters of lists and events: only what is ours is told.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{
    json, names,
    query::Query,
    refusal::{Refusal, Result, quoted},
};

const MAX_VALUE: usize = 512;

/// Keeps the filters, with one on a label of ours: it is added where it is missing.
pub fn keep(query: &mut Query, permitted: &[&str]) -> Result<()> {
    let mut filters = match query.take("filters") {
        None => BTreeMap::new(),
        Some(text) => read(&text, permitted)?,
    };
    let labels: &mut Vec<String> = filters.entry("label".to_owned()).or_default();
    let is_own = |label: &String| {
        let key = label.split_once('=').map_or(label.as_str(), |(key, _)| key);
        names::OWN.contains(&key)
    };
    if !labels.iter().any(is_own) {
        labels.push(names::OWN[1].to_owned());
    }
    query.keep("filters", &write(&filters));
    Ok(())
}

fn read(text: &str, permitted: &[&str]) -> Result<BTreeMap<String, Vec<String>>> {
    let Value::Object(given) = json::parse(text.as_bytes())? else {
        return Err(Refusal::malformed("the filters are not a JSON object"));
    };
    let mut filters = BTreeMap::new();
    for (name, values) in given {
        if json::is_empty(&values) {
            continue;
        }
        if name != "label" && !permitted.contains(&name.as_str()) {
            return Err(Refusal::forbidden(format!(
                "the filter {} is not permitted",
                quoted(&name)
            )));
        }
        let values = texts(&values).ok_or_else(|| {
            Refusal::malformed(format!(
                "the filter {} is not a list of texts",
                quoted(&name)
            ))
        })?;
        filters.insert(name, values);
    }
    Ok(filters)
}

/// `["a"]`, or `{"a": true}` as newer clients write it.
fn texts(values: &Value) -> Option<Vec<String>> {
    let fits = |text: &String| text.len() <= MAX_VALUE;
    match values {
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned).filter(fits))
            .collect(),
        Value::Object(members) => members
            .iter()
            .map(|(text, on)| {
                (*on == Value::Bool(true))
                    .then(|| text.clone())
                    .filter(fits)
            })
            .collect(),
        _ => None,
    }
}

fn write(filters: &BTreeMap<String, Vec<String>>) -> String {
    let members: Map<String, Value> = filters
        .iter()
        .map(|(name, values)| {
            let on: Map<_, _> = values
                .iter()
                .map(|text| (text.clone(), true.into()))
                .collect();
            (name.clone(), Value::Object(on))
        })
        .collect();
    json!(members).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(filters: &str) -> Result<Value> {
        let text = form_urlencoded::Serializer::new(String::new())
            .append_pair("filters", filters)
            .finish();
        let mut query = Query::parse(&text)?;
        keep(&mut query, &["name", "status"])?;
        let sent = query.close()?;
        let (_, value) = form_urlencoded::parse(&sent.as_bytes()[1..])
            .next()
            .unwrap();
        Ok(serde_json::from_str(&value).unwrap())
    }

    #[test]
    fn a_list_tells_only_of_what_is_ours() {
        let own = json!({"dev.sandboxd.kind": true});
        for (given, sent) in [
            ("{}", json!({"label": own})),
            (r#"{"label": []}"#, json!({"label": own})),
            (
                r#"{"label": ["a=b"]}"#,
                json!({"label": {"a=b": true, "dev.sandboxd.kind": true}}),
            ),
            (
                r#"{"label": ["dev.sandboxd.owner=me"], "name": {"x": true}}"#,
                json!({"label": {"dev.sandboxd.owner=me": true}, "name": {"x": true}}),
            ),
            // Only begins like ours.
            (
                r#"{"label": ["dev.sandboxd.kinder"]}"#,
                json!({"label": {"dev.sandboxd.kinder": true, "dev.sandboxd.kind": true}}),
            ),
        ] {
            assert_eq!(kept(given).unwrap(), sent, "{given}");
        }
        let mut query = Query::parse("").unwrap();
        keep(&mut query, &[]).unwrap();
        assert!(query.close().unwrap().contains("dev.sandboxd.kind"));
    }

    #[test]
    fn filters_that_are_not_known_are_refused() {
        for bad in [
            r#"{"volume": ["/"]}"#,
            r#"{"Label": ["a"]}"#,
            r#"{"label": {"dev.sandboxd.kind": false}}"#,
            r#"{"label": "dev.sandboxd.kind"}"#,
            r#"{"label": [1]}"#,
            r#"{"label": ["a"], "label": ["b"]}"#,
            "[1]",
            "x",
        ] {
            assert!(kept(bad).is_err(), "{bad}");
        }
    }
}
