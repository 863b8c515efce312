//! The same as JSON, for programs, and as Markdown, for people.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{
    goals::Verdict,
    load::Load,
    machine::Machine,
    results::{Measure, Row, Side},
};

#[derive(Serialize)]
pub struct Report {
    pub quick: bool,
    pub seconds: u64,
    pub machine: Machine,
    pub goals: Vec<Verdict>,
    pub rows: Vec<Row>,
}

impl Report {
    /// `plots`: names of files beside it.
    pub fn markdown(&self, plots: &[String]) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        let Machine {
            processor,
            cpus,
            memory_gib,
            kernel,
            python,
            load_average,
        } = &self.machine;
        writeln!(text, "# Benchmark\n")?;
        writeln!(
            text,
            "{processor}, {cpus} processors, {memory_gib} GiB, Linux {kernel}, {python}; load \
             average {load_average} before; {} s{}.\n",
            self.seconds,
            if self.quick { ", quick" } else { "" }
        )?;
        self.goals(&mut text)?;
        self.latencies(&mut text)?;
        self.loads(&mut text)?;
        self.amounts(&mut text)?;
        self.missing(&mut text)?;
        for name in plots {
            writeln!(text, "![{name}]({name})\n")?;
        }
        Ok(text)
    }

    fn goals(&self, text: &mut String) -> std::fmt::Result {
        if self.goals.is_empty() {
            return Ok(());
        }
        writeln!(
            text,
            "## Goals\n\n| what | goal | found | |\n|---|---|---|---|"
        )?;
        for it in &self.goals {
            let verdict = match it.reached {
                Some(true) => "reached",
                Some(false) => "**not reached**",
                None => "not available",
            };
            let found = it.found.as_deref().unwrap_or("");
            writeln!(text, "| {} | {} | {found} | {verdict} |", it.what, it.goal)?;
        }
        writeln!(text)
    }

    fn latencies(&self, text: &mut String) -> std::fmt::Result {
        let mut family = "";
        for row in &self.rows {
            let Measure::Latency(it) = &row.measure else {
                continue;
            };
            if row.family != family {
                family = row.family;
                let head = "what | p50 ms | p95 ms | p99 ms | samples";
                writeln!(text, "\n## {}\n\n| | {head} |", capital(family))?;
                writeln!(text, "|---|---|---|---|---|---|")?;
            }
            writeln!(
                text,
                "| {} | {} | {:.2} | {:.2} | {:.2} | {} |",
                side(row.side),
                row.name,
                it.p50_ms,
                it.p95_ms,
                it.p99_ms,
                it.samples
            )?;
        }
        writeln!(text)
    }

    fn loads(&self, text: &mut String) -> std::fmt::Result {
        let loads = |row: &Row| match &row.measure {
            Measure::Load(it) => Some(it.clone()),
            _ => None,
        };
        if !self.rows.iter().any(|it| loads(it).is_some()) {
            return Ok(());
        }
        writeln!(
            text,
            "## Load\n\nOf processor time: milliseconds for each call. Memory is proportional, \
             of the service and of all its sandboxes.\n\n\
             | | what | calls/s | p50 ms | p95 ms | p99 ms | failed | CPU service | CPU sandboxes \
             | service MiB | sandboxes MiB |\n|---|---|---|---|---|---|---|---|---|---|---|"
        )?;
        for row in &self.rows {
            if let Some(it) = loads(row) {
                load(text, row, &it)?;
            }
        }
        writeln!(text)
    }

    fn amounts(&self, text: &mut String) -> std::fmt::Result {
        let mut family = "";
        for row in &self.rows {
            let Measure::Amount { value, unit } = &row.measure else {
                continue;
            };
            if row.family != family {
                family = row.family;
                writeln!(text, "## {}\n\n| what | |\n|---|---|", capital(family))?;
            }
            writeln!(text, "| {} | {value:.2} {unit} |", row.name)?;
        }
        writeln!(text)
    }

    fn missing(&self, text: &mut String) -> std::fmt::Result {
        let mut heading = "## Not available\n\n| what | why |\n|---|---|\n";
        for row in &self.rows {
            if let Measure::NotAvailable { why } = &row.measure {
                let why = why.replace('\n', " ").replace('|', "\\|");
                writeln!(text, "{heading}| {} | {why} |", row.name)?;
                heading = "";
            }
        }
        writeln!(text)
    }
}

fn load(text: &mut String, row: &Row, it: &Load) -> std::fmt::Result {
    let latency = &it.latency;
    let offered = it
        .offered_per_second
        .map_or(String::new(), |it| format!(" of {it:.0}"));
    write!(
        text,
        "| {} | {} | {:.0}{offered} | {:.2} | {:.2} | {:.2} | {} |",
        side(row.side),
        row.name,
        it.per_second,
        latency.p50_ms,
        latency.p95_ms,
        latency.p99_ms,
        it.failed
    )?;
    match &it.cost {
        Some(cost) => writeln!(
            text,
            " {:.2} | {:.2} | {:.0} | {:.0} |",
            cost.service_cpu_ms_per_call,
            cost.sandboxes_cpu_ms_per_call,
            cost.service_mib,
            cost.sandboxes_mib
        ),
        None => writeln!(text, " | | | |"),
    }
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Service => "sandboxd",
        Side::Yardstick => "",
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

#[cfg(test)]
mod tests {

    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::samples::Samples;

    fn report() -> Report {
        let mut samples = Samples::default();
        samples.push(Duration::from_millis(2));
        let latency = samples.summary().unwrap();
        let row = |family, name: &str, side, measure| Row {
            family,
            name: name.to_owned(),
            side,
            measure,
        };
        let load = Load {
            clients: 8,
            offered_per_second: None,
            per_second: 100.0,
            latency,
            failed: 0,
            failure: None,
            cost: None,
        };
        let missing = Measure::NotAvailable {
            why: "no | daemon\nhere".into(),
        };
        Report {
            quick: true,
            seconds: 3,
            machine: Machine {
                processor: "Test".into(),
                cpus: 2,
                memory_gib: 4.0,
                kernel: "6.1".into(),
                python: "Python 3.11.2".into(),
                load_average: 0.5,
            },
            goals: vec![Verdict {
                what: "a".into(),
                goal: "at most 0.2x of b".into(),
                found: Some("0.10x".into()),
                reached: Some(true),
            }],
            rows: vec![
                row("calls", "a", Side::Service, Measure::Latency(latency)),
                row("load", "b", Side::Yardstick, Measure::Load(load)),
                Row::amount("memory", "c", 1.5, "MB"),
                row("docker", "d", Side::Service, missing),
            ],
        }
    }

    #[test]
    fn the_json_keeps_its_shape() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["machine"]["cpus"], 2);
        assert_eq!(json["goals"][0]["reached"], true);
        let kinds = [0, 1, 2, 3].map(|n| json["rows"][n]["kind"].as_str());
        assert_eq!(
            kinds,
            ["latency", "load", "amount", "not_available"].map(Some)
        );
        let first = json!({
            "family": "calls", "name": "a", "side": "service", "kind": "latency",
            "samples": 1, "mean_ms": 2.0, "p50_ms": 2.0, "p95_ms": 2.0, "p99_ms": 2.0,
            "max_ms": 2.0,
        });
        assert_eq!(json["rows"][0], first);
        assert_eq!(json["rows"][1]["p95_ms"], 2.0);
    }

    #[test]
    fn the_tables_have_every_row_and_as_many_cells_as_their_heads() {
        let text = report().markdown(&["plot.svg".into()]).unwrap();
        for line in [
            "| a | at most 0.2x of b | 0.10x | reached |",
            "| sandboxd | a | 2.00 | 2.00 | 2.00 | 1 |",
            "|  | b | 100 | 2.00 | 2.00 | 2.00 | 0 | | | | |",
            "| c | 1.50 MB |",
            "| d | no \\| daemon here |",
            "![plot.svg](plot.svg)",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        let mut cells = None;
        for line in text.lines() {
            let found = line.replace("\\|", "").matches('|').count();
            if found == 0 {
                cells = None;
            } else {
                assert_eq!(*cells.get_or_insert(found), found, "{line}");
            }
        }
    }
}
