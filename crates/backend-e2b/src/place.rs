//! A sandbox that runs.
//!
//! ```text
//! running ── stop(), the handle dropped, the connection lost ──> guest ended ──> resting
//!    └────────── E2B says that there is none ────────────────────────^
//! ```
//!
//! One task owns the sandbox until it rests; the handle only tells it to end.

use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use guest_client::{GuestClient, GuestConfig};
use sandbox_backend::{Place, Usage};
use sandbox_core::{Error, Result, SandboxSpec, chain};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval_at, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use crate::{control::Control, envd::Envd, guest, usage::Told};

/// How long `stop` waits for the guest's end.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// For the guest's end, which needs envd.
const END_LIMIT: Duration = Duration::from_secs(15);
/// Of a sandbox's life, after which it is told to live on.
const PART: u32 = 3;
const TRY_AGAIN: Duration = Duration::from_secs(5);

pub(crate) struct E2bPlace {
    guest: GuestClient,
    /// Where no guest of ours tells more.
    told: Option<Told>,
    /// What of it can be changed: nothing but the environment.
    spec: SandboxSpec,
    /// Dropped with the handle, which ends the sandbox too.
    end: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
}

/// What the task of a place has.
pub(crate) struct Running {
    pub control: Control,
    pub envd: Envd,
    /// E2B's id.
    pub theirs: String,
    pub life: Duration,
    /// What gives a guest's services where there is none.
    pub alone: Option<AbortOnDropHandle<()>>,
}

impl E2bPlace {
    /// `rest` is what comes when the guest has ended, and before the sandbox has.
    pub fn new(
        guest: GuestClient,
        told: Option<Told>,
        spec: SandboxSpec,
        mut running: Running,
        rest: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let (end, mut end_asked) = watch::channel(false);
        let (set_ended, ended) = watch::channel(false);
        let connection_lost = guest.closed();
        // Ends with the sandbox's guest, which ends at the latest with the handle.
        tokio::spawn(async move {
            tokio::select! {
                // An error means that the handle is gone.
                _ = end_asked.wait_for(|end| *end) => {}
                () = connection_lost => {}
                () = running.keep_alive() => {}
            }
            // With it the connection ends, and the runs under way.
            match running.alone.take() {
                Some(serving) => drop(serving),
                None => running.end_guest().await,
            }
            rest.await;
            let _ = set_ended.send(true);
        });
        Self {
            guest,
            told,
            spec,
            end,
            ended,
        }
    }

    /// Tells that the sandbox rests, as often as it is asked.
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.ended.clone()
    }
}

impl Running {
    /// Until there is no such sandbox. Without it E2B would end the sandbox, as it shall
    /// when this service is no more.
    async fn keep_alive(&self) {
        let period = self.life / PART;
        let mut ticks = interval_at(tokio::time::Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            loop {
                match self.control.set_timeout(&self.theirs, self.life).await {
                    Ok(true) => break,
                    Ok(false) => {
                        warn!("a sandbox of E2B has ended by itself");
                        return;
                    }
                    Err(error) => {
                        warn!(
                            "failed to keep a sandbox alive, trying again: {}",
                            chain(&error)
                        );
                        sleep(TRY_AGAIN.min(period)).await;
                    }
                }
            }
        }
    }

    /// As well as that can be done: a pause without memory ends it too.
    async fn end_guest(&self) {
        match timeout(END_LIMIT, guest::end_all(&self.envd)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!("a guest is not ended by envd: {}", chain(&error));
            }
            Err(_) => tracing::debug!("a guest is not ended by envd in time"),
        }
    }
}

/// Whether a sandbox of one spec is one of the other but for its environment.
pub(crate) fn is_alike(one: &SandboxSpec, other: &SandboxSpec) -> bool {
    (&one.image, one.network, &one.limits) == (&other.image, other.network, &other.limits)
}

#[async_trait]
impl Place for E2bPlace {
    fn guest(&self) -> &GuestClient {
        &self.guest
    }

    /// The guest tells it with the end of a run, where it can.
    fn oom_kills(&self) -> Option<u64> {
        None
    }

    /// The guest is asked, where there is one.
    fn usage(&self) -> Usage {
        self.told.as_ref().map_or_else(Usage::default, Told::usage)
    }

    fn suits(&self, spec: &SandboxSpec) -> bool {
        is_alike(spec, &self.spec)
    }

    async fn adapt(&self, spec: &SandboxSpec) -> Result<()> {
        let config = GuestConfig {
            env: spec.env.clone(),
        };
        self.guest.init(&config).await
    }

    async fn stop(&self) -> Result<()> {
        let _ = self.end.send(true);
        timeout(STOP_LIMIT, self.gone())
            .await
            .map_err(|_| Error::internal("the sandbox does not end"))
    }

    fn gone(&self) -> BoxFuture<'static, ()> {
        let mut ended = self.ended.clone();
        Box::pin(async move {
            // An error means that the task is gone.
            let _ = ended.wait_for(|ended| *ended).await;
        })
    }
}
