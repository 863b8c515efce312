//! The dashboard, the alerts and the documentation speak of metrics that exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use sandbox_http::{Declared, Metrics};
use serde_json::Value;

/// Of Prometheus itself and of its collector of the process.
const OTHERS: [&str; 6] = [
    "up",
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
    "process_start_time_seconds",
];
/// Prometheus adds them to every sample.
const TARGET_LABELS: [&str; 2] = ["job", "instance"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The labels of a sample's name, or nothing where there is no such sample.
fn labels_of(sample: &str) -> Option<BTreeSet<&'static str>> {
    let declared = |name: &str, histogram: bool| {
        Metrics::DECLARED
            .iter()
            .find(|metric| metric.name == name && metric.histogram == histogram)
    };
    let mut labels: BTreeSet<&str> = TARGET_LABELS.into();
    if OTHERS.contains(&sample) {
        return Some(labels);
    }
    let metric: &Declared = match declared(sample, false) {
        Some(metric) => metric,
        None => {
            let (name, part) = sample.rsplit_once('_')?;
            match part {
                "bucket" => labels.insert("le"),
                "sum" | "count" => true,
                _ => return None,
            };
            declared(name, true)?
        }
    };
    labels.extend(metric.labels);
    Some(labels)
}

/// What an expression of PromQL names.
#[derive(Debug, Default, PartialEq)]
struct Named {
    /// Each sample, and the labels that it is selected by.
    samples: Vec<(String, BTreeSet<String>)>,
    /// Those that results are grouped by.
    grouped: BTreeSet<String>,
}

/// Reads as much of PromQL as the expressions here are made of.
fn named(expression: &str) -> Named {
    let mut named = Named::default();
    let mut rest = expression;
    let mut grouping = false;
    while let Some(first) = rest.chars().next() {
        let word: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || "_:$".contains(*c))
            .collect();
        if word.is_empty() {
            match first {
                // Ranges have no names, and strings are of selectors alone.
                '[' => rest = rest.split_once(']').unwrap().1,
                '{' => {
                    let (selector, after) = rest[1..].split_once('}').unwrap();
                    let labels = named.samples.last_mut().unwrap();
                    for matcher in selector.split(", ").filter(|matcher| !matcher.is_empty()) {
                        let (label, value) = matcher.split_once(['=', '!']).unwrap();
                        assert!(value.ends_with('"'), "{matcher}");
                        labels.1.insert(label.to_owned());
                    }
                    rest = after;
                }
                other => {
                    grouping &= other != ')';
                    rest = &rest[other.len_utf8()..];
                }
            }
            continue;
        }
        rest = &rest[word.len()..];
        let operator = ["and", "or", "unless", "bool"].contains(&word.as_str());
        if grouping {
            named.grouped.insert(word);
        } else if ["by", "without", "on", "ignoring"].contains(&word.as_str()) {
            grouping = true;
        } else if !(operator || first.is_ascii_digit() || rest.starts_with('(')) {
            // `sum by (x) (…)`: an aggregation is followed by its grouping.
            if !rest.trim_start().starts_with("by (") {
                named.samples.push((word, BTreeSet::new()));
            }
        }
    }
    named
}

/// Fails unless every name is one of the service's; gives the labels of the results.
fn check(expression: &str) -> BTreeSet<String> {
    let named = named(expression);
    assert!(!named.samples.is_empty(), "{expression}");
    let mut all = BTreeSet::new();
    for (sample, used) in named.samples {
        let labels =
            labels_of(&sample).unwrap_or_else(|| panic!("there is no `{sample}`: {expression}"));
        for label in &used {
            assert!(
                labels.contains(label.as_str()),
                "`{sample}` has no label `{label}`"
            );
        }
        all.extend(labels.into_iter().map(str::to_owned));
    }
    for label in &named.grouped {
        assert!(all.contains(label), "no label `{label}`: {expression}");
    }
    if named.grouped.is_empty() {
        all
    } else {
        named.grouped
    }
}

/// Fails unless the text shows labels that the results have.
fn check_shown(text: &str, before: &str, labels: &BTreeSet<String>) {
    for shown in text.split(before).skip(1) {
        let label: String = shown
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        assert!(labels.contains(&label), "`{text}` shows `{label}`");
    }
}

#[test]
fn the_dashboard_shows_metrics_and_labels_that_exist() {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/sandboxd.json")).unwrap();
    let mut ids = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let labels = check(expression);
            check_shown(target["legendFormat"].as_str().unwrap(), "{{", &labels);
            seen.extend(named(expression).samples.into_iter().map(|(name, _)| name));
        }
    }
    // Whatever is declared can be seen.
    for metric in Metrics::DECLARED {
        let name = match metric.histogram {
            true => format!("{}_bucket", metric.name),
            false => metric.name.to_owned(),
        };
        assert!(seen.contains(&name), "`{name}` is on no panel");
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["query"]["query"].as_str() {
            let inner = query.strip_prefix("label_values(").unwrap();
            let (sample, label) = inner.strip_suffix(')').unwrap().rsplit_once(", ").unwrap();
            assert!(check(sample).contains(label), "{query}");
        }
    }
}

#[test]
fn the_alerts_watch_metrics_and_labels_that_exist() {
    let file: Value = yaml_serde::from_str(&read("deploy/prometheus/alerts.yaml")).unwrap();
    let mut names = BTreeSet::new();
    for rule in file["groups"][0]["rules"].as_array().unwrap() {
        let name = rule["alert"].as_str().unwrap();
        assert!(names.insert(name), "{name} is there twice");
        let labels = check(rule["expr"].as_str().unwrap());
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(
            ["critical", "warning", "info"].contains(&severity),
            "{name}"
        );
        for text in ["summary", "description"] {
            let text = rule["annotations"][text].as_str().unwrap();
            check_shown(text, "$labels.", &labels);
        }
    }
    let documented = read("docs/observability.md");
    for name in names {
        assert!(documented.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn the_documentation_has_every_metric_with_its_labels() {
    let table: Vec<String> = read("docs/observability.md")
        .lines()
        .filter(|line| line.starts_with("| `sandbox_"))
        .map(str::to_owned)
        .collect();
    let declared: Vec<String> = Metrics::DECLARED
        .iter()
        .map(|metric| {
            let labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
            let (name, help) = (metric.name, metric.help.trim().trim_end_matches('.'));
            format!("| `{name}` | {} | {help} |", labels.join(", "))
        })
        .collect();
    assert_eq!(table.join("\n"), declared.join("\n"));
}

#[test]
fn a_name_that_does_not_exist_would_be_found() {
    let found = named(
        "histogram_quantile(0.95, sum by (le, route) (rate(a_bucket{x=\"1\", y!~\"b\"}[5m]))) > 1 and b",
    );
    assert_eq!(found.grouped, ["le", "route"].map(str::to_owned).into());
    let samples: Vec<&str> = found
        .samples
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(samples, ["a_bucket", "b"]);
    for (sample, exists) in [
        ("sandbox_exec_total", true),
        ("sandbox_exec_seconds_bucket", true),
        ("sandbox_exec_seconds", false),
        ("sandbox_exec_total_count", false),
        ("sandbox_exec", false),
        ("up", true),
    ] {
        assert_eq!(labels_of(sample).is_some(), exists, "{sample}");
    }
}
