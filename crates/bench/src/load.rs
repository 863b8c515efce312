//! The load generator: clients that call at once.
//!
//! In the closed loop a client calls as soon as it has its answer, which shows what the
//! service can do. In the open loop calls come at a rate that does not wait for answers,
//! as those of many people do, and a call that finds no client free waits for one: the
//! wait counts, for whoever made that call would have waited too.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use futures::future::join_all;
use serde::Serialize;

use crate::{
    Result,
    samples::{Samples, Summary},
    usage::Usage,
    work::Work,
};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Load {
    pub clients: usize,
    /// Of the open loop: how many calls were to come in a second.
    pub offered_per_second: Option<f64>,
    pub per_second: f64,
    #[serde(flatten)]
    pub latency: Summary,
    pub failed: usize,
    /// Why the first of them did.
    pub failure: Option<String>,
    /// Of yardsticks nobody asks.
    pub cost: Option<Cost>,
}

/// What the calls took of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    pub service_cpu_ms_per_call: f64,
    pub sandboxes_cpu_ms_per_call: f64,
    /// Proportional, at the end.
    pub service_mib: f64,
    pub sandboxes_mib: f64,
    pub sandboxes: usize,
}

#[derive(Clone, Copy)]
pub enum Loop {
    Closed,
    Open { per_second: f64 },
}

/// `service`: the process whose usage is asked for.
pub async fn load<W: Work>(
    clients: &mut [W],
    kind: Loop,
    time: Duration,
    service: Option<u32>,
) -> Result<Load> {
    let before = service.map(Usage::of).transpose()?;
    let began = Instant::now();
    let arrivals = Arrivals {
        kind,
        began,
        until: began + time,
        next: Cell::new(0),
    };
    let all = clients.iter_mut().map(|work| client(work, &arrivals));
    let done = join_all(all).await;
    let took = began.elapsed().as_secs_f64();
    let after = service.map(Usage::of).transpose()?;

    let mut samples = Samples::default();
    let mut failures = Vec::new();
    for (of_one, failed) in done {
        samples.extend(of_one);
        failures.extend(failed);
    }
    let failure = failures.first().cloned();
    let Some(latency) = samples.summary() else {
        return Err(failure.unwrap_or_else(|| "no call ended".into()).into());
    };
    let calls = latency.samples as f64;
    let cost = before.zip(after).map(|(before, after)| Cost {
        service_cpu_ms_per_call: (after.service_cpu - before.service_cpu) * 1e3 / calls,
        sandboxes_cpu_ms_per_call: (after.sandboxes_cpu - before.sandboxes_cpu) * 1e3 / calls,
        service_mib: after.service_mib(),
        sandboxes_mib: after.sandboxes_mib(),
        sandboxes: after.sandboxes,
    });
    Ok(Load {
        clients: clients.len(),
        offered_per_second: match kind {
            Loop::Closed => None,
            Loop::Open { per_second } => Some(per_second),
        },
        per_second: calls / took,
        latency,
        failed: failures.len(),
        failure,
        cost,
    })
}

struct Arrivals {
    kind: Loop,
    began: Instant,
    until: Instant,
    next: Cell<u32>,
}

impl Arrivals {
    /// How late the next call is, when it may be made; `None` when there is no more.
    async fn next(&self) -> Option<Duration> {
        let Loop::Open { per_second } = self.kind else {
            return (Instant::now() < self.until).then_some(Duration::ZERO);
        };
        let number = self.next.replace(self.next.get() + 1);
        let due = self.began + Duration::from_secs_f64(f64::from(number) / per_second);
        if due >= self.until {
            return None;
        }
        let late = Instant::now().saturating_duration_since(due);
        if late.is_zero() {
            // The timer may be a millisecond late, which is no fault of the service's.
            tokio::time::sleep_until(due.into()).await;
        }
        Some(late)
    }
}

async fn client<W: Work>(work: &mut W, arrivals: &Arrivals) -> (Samples, Vec<String>) {
    let mut samples = Samples::default();
    let mut failures = Vec::new();
    while let Some(late) = arrivals.next().await {
        match work.once().await {
            Ok(took) => samples.push(late + took),
            Err(error) => {
                failures.push(error.to_string());
                // One that fails at once would do nothing else, a million times.
                if failures.len() >= 10 {
                    break;
                }
            }
        }
    }
    (samples, failures)
}

#[cfg(test)]
mod tests {

    use async_trait::async_trait;

    use super::*;

    /// Takes as long as it says.
    struct Sleep(Duration);

    #[async_trait(?Send)]
    impl Work for Sleep {
        async fn once(&mut self) -> Result<Duration> {
            let began = Instant::now();
            tokio::time::sleep(self.0).await;
            Ok(began.elapsed())
        }
    }

    struct Fails;

    #[async_trait(?Send)]
    impl Work for Fails {
        async fn once(&mut self) -> Result<Duration> {
            Err("out of order".into())
        }
    }

    fn run<W: Work>(clients: &mut [W], kind: Loop) -> Result<Load> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(load(clients, kind, Duration::from_millis(300), None))
    }

    #[test]
    fn clients_of_a_closed_loop_call_at_once() {
        let mut clients = [(); 4].map(|()| Sleep(Duration::from_millis(20)));
        let load = run(&mut clients, Loop::Closed).unwrap();
        assert_eq!((load.clients, load.failed), (4, 0));
        assert!(load.latency.samples > 4, "{load:?}");
        assert!(load.latency.p50_ms >= 20.0, "{load:?}");
    }

    #[test]
    fn calls_of_an_open_loop_count_their_wait_for_a_client() {
        let mut clients = [Sleep(Duration::from_millis(50))];
        let load = run(&mut clients, Loop::Open { per_second: 50.0 }).unwrap();
        // All fifteen are made, and the last waits for those before it.
        assert_eq!(load.latency.samples, 15);
        assert!(load.latency.max_ms > 300.0, "{load:?}");
    }

    #[test]
    fn a_loop_in_which_every_call_fails_says_why() {
        let error = run(&mut [Fails], Loop::Closed).unwrap_err();
        assert_eq!(error.to_string(), "out of order");
    }
}
