//! Requests per second of each tenant: token buckets.
//!
//! A bucket is one point in time, the one at which it is full again (the generic
//! cell rate algorithm, ITU-T I.371). A bucket that is full says nothing, so it
//! is dropped: memory follows the tenants that called within the last burst.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use sandbox_core::TenantId;

/// Fewer buckets than this are not worth a look.
const SMALLEST_SWEEP: usize = 1024;

pub(crate) struct Rate {
    /// The time in which one token comes.
    token: Duration,
    /// The time in which an empty bucket fills.
    whole: Duration,
    buckets: Mutex<Buckets>,
}

struct Buckets {
    full_at: HashMap<TenantId, Instant>,
    /// At how many the full ones are dropped: twice as many as were left the last
    /// time, so that a request pays for two looks on average.
    sweep_at: usize,
}

impl Rate {
    /// `None` where there is no limit.
    pub(crate) fn new(per_second: u32, burst: u32) -> Option<Self> {
        let token = Duration::from_secs(1).checked_div(per_second)?;
        Some(Self {
            token,
            whole: token.saturating_mul(burst.max(1)),
            buckets: Mutex::new(Buckets {
                full_at: HashMap::new(),
                sweep_at: SMALLEST_SWEEP,
            }),
        })
    }

    /// Takes a token, or says after what time there is one.
    pub(crate) fn take(&self, tenant: &TenantId, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let full_at = buckets.full_at.get(tenant).map_or(now, |at| now.max(*at));
        let fills_in = full_at - now + self.token;
        if fills_in > self.whole {
            return Err(fills_in - self.whole);
        }
        buckets.full_at.insert(tenant.clone(), now + fills_in);
        buckets.sweep(now);
        Ok(())
    }
}

impl Buckets {
    fn sweep(&mut self, now: Instant) {
        if self.full_at.len() < self.sweep_at {
            return;
        }
        self.full_at.retain(|_, at| *at > now);
        self.sweep_at = (2 * self.full_at.len()).max(SMALLEST_SWEEP);
        self.full_at.shrink_to(self.sweep_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        name.parse().unwrap()
    }

    #[test]
    fn a_burst_passes_then_one_per_tokens_time() {
        let rate = Rate::new(10, 3).unwrap();
        let (a, start) = (tenant("a"), Instant::now());
        let ms = |ms| start + Duration::from_millis(ms);
        for _ in 0..3 {
            assert_eq!(rate.take(&a, start), Ok(()));
        }
        assert_eq!(rate.take(&a, start), Err(Duration::from_millis(100)));
        // A refused request takes nothing, and what it is told is exact.
        assert_eq!(rate.take(&a, ms(99)), Err(Duration::from_millis(1)));
        assert_eq!(rate.take(&a, ms(100)), Ok(()));
        assert_eq!(rate.take(&a, ms(100)), Err(Duration::from_millis(100)));
        assert_eq!(rate.take(&tenant("b"), ms(100)), Ok(()));
        // After a long pause there is one burst and no more.
        let passed = (0..9).filter(|_| rate.take(&a, ms(60_000)).is_ok());
        assert_eq!(passed.count(), 3);
    }

    #[test]
    fn extreme_settings_are_no_panic() {
        let now = Instant::now();
        assert!(Rate::new(0, 5).is_none());
        for (per_second, burst) in [(1, u32::MAX), (u32::MAX, u32::MAX), (u32::MAX, 0), (1, 0)] {
            let rate = Rate::new(per_second, burst).unwrap();
            assert_eq!(rate.take(&tenant("a"), now), Ok(()));
        }
    }

    #[test]
    fn a_million_tenants_that_are_gone_take_no_memory() {
        let rate = Rate::new(1000, 10).unwrap();
        let start = Instant::now();
        let mut most = 0;
        for n in 0..1_000_000u32 {
            let now = start + Duration::from_micros(10) * n;
            assert_eq!(rate.take(&tenant(&format!("t{n}")), now), Ok(()));
            most = most.max(rate.buckets.lock().unwrap().full_at.capacity());
        }
        assert!(most <= 4 * SMALLEST_SWEEP, "{most}");
    }
}
