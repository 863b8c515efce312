//! How much may wait, and how long things are kept.

use std::{path::PathBuf, time::Duration};

#[derive(Clone, Debug)]
pub struct AuditSettings {
    /// Records that may wait; then callers wait.
    pub queue: usize,
    /// What the records that wait may be together: some have code in them.
    pub queue_bytes: usize,
    /// How long records are kept. `None`: for ever.
    pub retention: Option<Duration>,
    /// How long names of runs stay taken. `None`: for ever.
    pub claim_retention: Option<Duration>,
    /// Between two looks for what is too old.
    pub sweep_interval: Duration,
    /// The folder of what could not be written before the service stopped.
    /// `None`: that goes to the log, without code.
    pub spool: Option<PathBuf>,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self {
            queue: 4096,
            queue_bytes: 32 * 1024 * 1024,
            retention: None,
            claim_retention: Some(Duration::from_secs(7 * 24 * 3600)),
            sweep_interval: Duration::from_secs(600),
            spool: None,
        }
    }
}
