//! What was found, and how it is shown.

use std::fmt::Write as _;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Holds,
    /// The backend lacks a capability, and says so.
    DoesNotApply,
    Fails(String),
}

#[derive(Clone, Debug)]
pub struct Report {
    pub backend: String,
    pub outcomes: Vec<(&'static str, Outcome)>,
}

impl Report {
    pub fn failures(&self) -> Vec<String> {
        let failed = self.outcomes.iter().filter_map(|(name, outcome)| {
            let Outcome::Fails(why) = outcome else {
                return None;
            };
            Some(format!("{} on `{}`: {why}", name, self.backend))
        });
        failed.collect()
    }

    pub fn held(&self) -> usize {
        let held = |(_, outcome): &&(&str, Outcome)| *outcome == Outcome::Holds;
        self.outcomes.iter().filter(held).count()
    }
}

/// Behaviours by backend, in Markdown.
pub fn table(reports: &[Report]) -> String {
    let Some(first) = reports.first() else {
        return String::new();
    };
    let mut text = String::from("| behaviour |");
    let mut line = String::from("|---|");
    for report in reports {
        let _ = write!(text, " {} |", report.backend);
        line.push_str("---|");
    }
    let _ = writeln!(text, "\n{line}");
    for (row, (name, _)) in first.outcomes.iter().enumerate() {
        let _ = write!(text, "| {name} |");
        for report in reports {
            let cell = match report.outcomes.get(row) {
                Some((_, Outcome::Holds)) => "yes",
                Some((_, Outcome::DoesNotApply)) => "not offered",
                Some((_, Outcome::Fails(_))) => "**fails**",
                None => "",
            };
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
    text
}
