//! What a sandbox uses, as E2B tells it: asked for when somebody wants to know, and where
//! no guest of ours tells more.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use sandbox_backend::Usage;
use tracing::debug;

use crate::control::Control;

/// How old it may be.
const FRESH: Duration = Duration::from_secs(10);

/// A clone is of the same sandbox.
#[derive(Clone)]
pub(crate) struct Told {
    control: Control,
    /// E2B's id.
    theirs: String,
    last: Arc<Mutex<Last>>,
}

#[derive(Default)]
struct Last {
    usage: Usage,
    asked: Option<Instant>,
}

impl Told {
    pub fn new(control: Control, theirs: String) -> Self {
        Self {
            control,
            theirs,
            last: Arc::default(),
        }
    }

    /// What is known; what is old is asked for again, for the next time.
    pub fn usage(&self) -> Usage {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.asked.is_none_or(|asked| asked.elapsed() > FRESH) {
            last.asked = Some(Instant::now());
            let told = self.clone();
            // Ends with the answer, which has a limit.
            tokio::spawn(async move { told.ask().await });
        }
        last.usage.clone()
    }

    async fn ask(&self) {
        match self.control.memory_used(&self.theirs).await {
            Ok(memory_bytes) => {
                let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                last.usage.memory_bytes = memory_bytes;
            }
            Err(error) => debug!("E2B does not tell what a sandbox uses: {error}"),
        }
    }
}
