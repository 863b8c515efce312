//! `make bench`: the service against what it is built on and what it replaces, in one
//! run on one machine. What counts is the ratio of medians: figures of two machines, or
//! of one at two times, say little.

mod bench;
mod client;
mod docker;
mod goals;
mod load;
mod machine;
mod plots;
mod report;
mod results;
mod samples;
mod scenarios;
mod service;
mod turns;
mod usage;
mod work;
mod yardsticks;

use std::{error::Error, fs, path::PathBuf, time::Instant};

use clap::{Parser, ValueEnum as _};

use bench::Bench;
use goals::GOALS;
use machine::Machine;
use report::Report;
use scenarios::Scenario;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Times sandboxd against what it is built on and what it replaces
#[derive(Parser)]
struct Arguments {
    /// Fewer samples, shorter loads, 100 sessions in place of 1,000
    #[arg(long)]
    quick: bool,
    /// The service; by default the one that was built beside this program
    #[arg(long)]
    sandboxd: Option<PathBuf>,
    /// Where results.json, results.md and the plots are written
    #[arg(long, default_value = "bench")]
    output: PathBuf,
    /// By default all of them
    scenarios: Vec<Scenario>,
}

fn main() -> Result<()> {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|it| it == yardsticks::SERVE_EMPTY)
    {
        return yardsticks::serve_empty();
    }
    let arguments = Arguments::parse();
    // One thread: the load generator shares the processors with what it measures.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(arguments))
}

async fn run(arguments: Arguments) -> Result<()> {
    let began = Instant::now();
    let machine = Machine::this();
    let bench = Bench::new(arguments.quick, arguments.sandboxd)?;
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    let scenarios = match arguments.scenarios.as_slice() {
        [] => Scenario::value_variants(),
        some => some,
    };
    for scenario in scenarios {
        let since = Instant::now();
        match scenario.run(&bench).await {
            Ok(found) => rows.extend(found),
            Err(error) => failed.push((*scenario, error.to_string())),
        }
        eprintln!("{scenario:?}: {:.0} s", since.elapsed().as_secs_f64());
    }
    let report = Report {
        quick: bench.quick,
        seconds: began.elapsed().as_secs(),
        machine,
        goals: GOALS
            .iter()
            .filter(|it| scenarios.contains(&it.scenario))
            .map(|it| it.judge(&rows))
            .collect(),
        rows,
    };
    fs::create_dir_all(&arguments.output)?;
    let plots = plots::draw(&report.rows, &arguments.output)?;
    let json = serde_json::to_string_pretty(&report)?;
    fs::write(arguments.output.join("results.json"), json)?;
    let markdown = report.markdown(&plots)?;
    fs::write(arguments.output.join("results.md"), &markdown)?;
    println!("{markdown}");
    match failed.first() {
        Some((scenario, error)) => {
            Err(format!("{scenario:?} could not be measured: {error}").into())
        }
        None => Ok(()),
    }
}
