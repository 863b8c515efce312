//! Latencies of one thing, and what is said of them.

use std::time::Duration;

use serde::Serialize;

#[derive(Clone, Default)]
pub struct Samples(Vec<Duration>);

/// In milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub samples: usize,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Samples {
    pub fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// `None` of no samples: there is no such number then.
    pub fn summary(&self) -> Option<Summary> {
        let mut ms: Vec<f64> = self.0.iter().map(|it| it.as_secs_f64() * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        let max_ms = *ms.last()?;
        Some(Summary {
            samples: ms.len(),
            mean_ms: ms.iter().sum::<f64>() / ms.len() as f64,
            p50_ms: percentile(&ms, 50),
            p95_ms: percentile(&ms, 95),
            p99_ms: percentile(&ms, 99),
            max_ms,
        })
    }
}

/// The smallest sample that is not below so many per cent of them (nearest rank), so
/// that each number that is shown was measured.
fn percentile(sorted: &[f64], per_cent: usize) -> f64 {
    let rank = (sorted.len() * per_cent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ms: impl IntoIterator<Item = u64>) -> Option<Summary> {
        let mut samples = Samples::default();
        for it in ms {
            samples.push(Duration::from_millis(it));
        }
        samples.summary()
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank_in_any_order() {
        let summary = Summary {
            samples: 100,
            mean_ms: 50.5,
            p50_ms: 50.0,
            p95_ms: 95.0,
            p99_ms: 99.0,
            max_ms: 100.0,
        };
        assert_eq!(of((1..=100).rev()), Some(summary));
    }

    #[test]
    fn a_single_sample_is_every_percentile() {
        let summary = Summary {
            samples: 1,
            mean_ms: 7.0,
            p50_ms: 7.0,
            p95_ms: 7.0,
            p99_ms: 7.0,
            max_ms: 7.0,
        };
        assert_eq!(of([7]), Some(summary));
    }

    #[test]
    fn the_tail_of_few_samples_is_the_slowest() {
        let summary = of([1, 2, 3, 4]).map(|it| (it.p50_ms, it.p95_ms, it.p99_ms));
        assert_eq!(summary, Some((2.0, 4.0, 4.0)));
    }

    #[test]
    fn no_samples_have_no_percentiles() {
        assert_eq!(of([]), None);
    }
}
