//! What is timed: a request, a process, a round trip.

use std::time::Duration;

use async_trait::async_trait;

use crate::Result;

/// It times itself, so that what must be prepared or removed around it is not counted.
#[async_trait(?Send)]
pub trait Work {
    async fn once(&mut self) -> Result<Duration>;
}
