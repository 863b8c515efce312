//! A guest that is not its sandbox's init: another program's is.
//!
//! What its programs leave behind comes to it nevertheless, and it ends with all of them:
//! nothing of it is left for a guest that comes after it.

use std::{
    io,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, getpid, set_child_subreaper};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use crate::supervise::tree;

/// Between two looks at what is left.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const KILL_LIMIT: Duration = Duration::from_secs(3);

pub(crate) struct Beside(tokio::signal::unix::Signal);

impl Beside {
    /// `None` where the guest is the init.
    pub fn init() -> io::Result<Option<Self>> {
        let me = getpid();
        if me == Pid::INIT {
            return Ok(None);
        }
        set_child_subreaper(Some(me))?;
        Ok(Some(Self(signal(SignalKind::terminate())?)))
    }

    /// Serves until its end, or until somebody asks for it.
    pub async fn until_told(
        mut self,
        serving: impl Future<Output = io::Result<()>>,
    ) -> io::Result<()> {
        let served = tokio::select! {
            served = serving => served,
            _ = self.0.recv() => Ok(()),
        };
        let me = getpid().as_raw_pid();
        let until = Instant::now() + KILL_LIMIT;
        while Instant::now() < until && !tree::descendants(me).is_empty() {
            tree::signal_descendants(me, Signal::KILL);
            sleep(LOOK_AGAIN).await;
        }
        served
    }
}
