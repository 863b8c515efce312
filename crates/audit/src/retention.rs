//! Forgets what is too old.

use std::{sync::Arc, time::Duration};

use sandbox_core::{Clock, Result, Timestamp};
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use crate::{AuditSettings, audit::Trail};

/// Records of one call, so that none holds the store for long.
const STEP: usize = 500;
/// Calls of one look; the rest waits for the next.
const STEPS: usize = 200;

/// Looks again and again; never returns.
pub async fn keep_forgetting<S: Trail + ?Sized>(
    store: Arc<S>,
    clock: Arc<dyn Clock>,
    settings: AuditSettings,
) {
    let mut ticks = interval(settings.sweep_interval.max(Duration::from_secs(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = clock.now();
        if let Err(error) = forget(store.as_ref(), now, &settings).await {
            warn!(
                error = &error as &dyn std::error::Error,
                "failed to forget old audit records"
            );
        }
    }
}

async fn forget<S: Trail + ?Sized>(
    store: &S,
    now: Timestamp,
    settings: &AuditSettings,
) -> Result<()> {
    if let Some(age) = settings.claim_retention {
        store.forget_claims(before(now, age)).await?;
    }
    let Some(age) = settings.retention else {
        return Ok(());
    };
    for _ in 0..STEPS {
        let forgotten = store.forget(before(now, age), STEP).await?;
        if forgotten < STEP as u64 {
            break;
        }
        // Those who write come between.
        tokio::task::yield_now().await;
    }
    Ok(())
}

fn before(now: Timestamp, age: Duration) -> Timestamp {
    let ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Timestamp(now.0.saturating_sub(ms))
}
