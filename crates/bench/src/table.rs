//! Samples and what is shown of them.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::Result;

const PAUSE: Duration = Duration::from_millis(40);
const RESULTS: &str = "bench/results.json";

#[derive(Clone, Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    /// After a pause, so that what the sample before has left to do is done.
    pub fn time(&mut self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        std::thread::sleep(PAUSE);
        let began = Instant::now();
        work()?;
        self.0.push(began.elapsed());
        Ok(())
    }

    /// In milliseconds.
    fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let found = sorted.get((last as f64 * share).round() as usize);
        found.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

#[derive(Clone)]
pub struct Comparison {
    what: &'static str,
    ours: Samples,
    yardstick: &'static str,
    theirs: Samples,
}

impl Comparison {
    pub fn new(
        what: &'static str,
        ours: Samples,
        yardstick: &'static str,
        theirs: Samples,
    ) -> Self {
        Self {
            what,
            ours,
            yardstick,
            theirs,
        }
    }
}

/// A Markdown table, and the same as JSON in a file.
pub fn print(comparisons: &[Comparison]) -> Result<()> {
    println!("| what | median | p95 | yardstick | median | p95 | times as fast |");
    println!("|---|---|---|---|---|---|---|");
    let mut results = Vec::new();
    for it in comparisons {
        let (ours, theirs) = (it.ours.at(0.5), it.theirs.at(0.5));
        println!(
            "| {} | {ours:.2} ms | {:.2} ms | {} | {theirs:.2} ms | {:.2} ms | {:.1} |",
            it.what,
            it.ours.at(0.95),
            it.yardstick,
            it.theirs.at(0.95),
            theirs / ours
        );
        results.push(json!({
            "what": it.what,
            "median_ms": ours,
            "p95_ms": it.ours.at(0.95),
            "yardstick": it.yardstick,
            "yardstick_median_ms": theirs,
            "yardstick_p95_ms": it.theirs.at(0.95),
            "times_as_fast": theirs / ours,
        }));
    }
    if let Some(folder) = std::path::Path::new(RESULTS).parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(RESULTS, serde_json::to_string_pretty(&results)?)?;
    Ok(())
}
