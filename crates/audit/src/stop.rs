//! When the writer is to stop.

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// Told once: from when on nothing new is taken, and until when what is queued may be written.
#[derive(Clone)]
pub struct Stop(watch::Receiver<Option<Instant>>);

impl Stop {
    pub fn channel() -> (watch::Sender<Option<Instant>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }

    /// Resolves when the writer is told to stop; with its deadline.
    pub async fn told(&mut self) -> Instant {
        match self.0.wait_for(Option::is_some).await {
            Ok(deadline) => deadline.unwrap_or_else(Instant::now),
            // Whoever could tell is gone.
            Err(_) => Instant::now(),
        }
    }

    /// Resolves at the deadline.
    pub async fn up(&mut self) {
        let deadline = self.told().await;
        sleep_until(deadline).await;
    }
}
