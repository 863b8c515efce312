//! The families of scenarios.

pub mod calls;
pub mod clients;
mod contexts;
pub mod e2b;
pub mod files;
pub mod fresh;
pub mod many;
pub mod plot;
pub mod search;

use clap::ValueEnum;

use crate::{Result, bench::Bench, results::Row};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// A run, a shell line, a context in a session that lives
    Calls,
    /// pandas and matplotlib
    Plot,
    /// The first call of a session
    Fresh,
    /// 1 MiB read and written
    Files,
    /// Grep and glob
    Search,
    /// Many clients at once
    Clients,
    /// 1,000 sessions, and what one takes
    Many,
    /// E2B's SDK, and a command through its API
    E2b,
}

impl Scenario {
    pub async fn run(self, bench: &Bench) -> Result<Vec<Row>> {
        match self {
            Self::Calls => calls::run(bench).await,
            Self::Plot => plot::run(bench).await,
            Self::Fresh => fresh::run(bench).await,
            Self::Files => files::run(bench).await,
            Self::Search => search::run(bench).await,
            Self::Clients => clients::run(bench).await,
            Self::Many => many::run(bench).await,
            Self::E2b => e2b::run(bench).await,
        }
    }
}
