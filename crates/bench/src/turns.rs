//! Latencies, round by round: each round does each thing once, one after the other, so
//! that a machine that is slow for a while is slow for all of them.

use std::time::Duration;

use crate::{
    Result,
    results::{Measure, Row, Side},
    samples::Samples,
    work::Work,
};

/// A run that follows another within a tick of the kernel waits for the tick; and what
/// the sample before has left to do should be done.
const PAUSE: Duration = Duration::from_millis(40);

/// How often a thing is timed.
#[derive(Clone, Copy)]
pub struct Rounds(pub usize);

pub struct Turns {
    family: &'static str,
    entries: Vec<Entry>,
}

struct Entry {
    name: String,
    side: Side,
    rounds: usize,
    work: Result<Box<dyn Work>>,
    samples: Samples,
}

impl Turns {
    pub fn new(family: &'static str) -> Self {
        Self {
            family,
            entries: Vec::new(),
        }
    }

    pub fn ours(&mut self, name: &str, rounds: Rounds, work: Result<impl Work + 'static>) {
        self.add(Side::Service, name, rounds, work);
    }

    pub fn yardstick(&mut self, name: &str, rounds: Rounds, work: Result<impl Work + 'static>) {
        self.add(Side::Yardstick, name, rounds, work);
    }

    /// Something of the service's that this machine cannot show.
    pub fn not_available(&mut self, name: &str, why: &str) {
        self.entries.push(Entry {
            name: name.to_owned(),
            side: Side::Service,
            rounds: 0,
            work: Err(why.into()),
            samples: Samples::default(),
        });
    }

    fn add(&mut self, side: Side, name: &str, rounds: Rounds, work: Result<impl Work + 'static>) {
        self.entries.push(Entry {
            name: name.to_owned(),
            side,
            rounds: rounds.0,
            work: work.map(|it| Box::new(it) as Box<dyn Work>),
            samples: Samples::default(),
        });
    }

    pub async fn run(mut self) -> Vec<Row> {
        // The first time makes sessions and fills caches, and finds what does not work.
        for entry in &mut self.entries {
            entry.once(false).await;
        }
        let rounds = self.entries.iter().map(|it| it.rounds).max().unwrap_or(0);
        for round in 0..rounds {
            for entry in &mut self.entries {
                // Those of fewer rounds are spread over all of them.
                if (round + 1) * entry.rounds / rounds > round * entry.rounds / rounds {
                    entry.once(true).await;
                }
            }
        }
        let family = self.family;
        let entries = self.entries.into_iter();
        entries.map(|entry| entry.row(family)).collect()
    }
}

impl Entry {
    async fn once(&mut self, counts: bool) {
        let Ok(work) = &mut self.work else { return };
        tokio::time::sleep(PAUSE).await;
        match work.once().await {
            Ok(sample) if counts => self.samples.push(sample),
            Ok(_) => {}
            Err(error) => self.work = Err(error),
        }
    }

    fn row(self, family: &'static str) -> Row {
        let measure = match (self.work, self.samples.summary()) {
            (Err(error), _) => Measure::NotAvailable {
                why: error.to_string(),
            },
            (Ok(_), Some(summary)) => Measure::Latency(summary),
            (Ok(_), None) => Measure::NotAvailable {
                why: "it was not timed".into(),
            },
        };
        Row {
            family,
            name: self.name,
            side: self.side,
            measure,
        }
    }
}
