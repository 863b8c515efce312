//! Whole trees in and out of the workspace, as tar (POSIX.1-2001 pax and GNU).
//!
//! An archive is somebody's input: it is unpacked beside the workspace, each
//! entry checked before it is written, and moved into place when all of it is
//! there. Until then nothing has changed.

mod export;
mod import;
mod merge;

use std::{io, sync::Arc, thread};

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use export::export;
pub(crate) use import::import;

use crate::error::error;

/// Archives under way in one sandbox; each has a thread of its own, for it may
/// wait for its client.
const AT_A_TIME: usize = 4;

#[derive(Clone)]
pub(crate) struct Archives(Arc<Semaphore>);

impl Default for Archives {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }
}

impl Archives {
    fn place(&self) -> Result<OwnedSemaphorePermit, ConnectError> {
        Arc::clone(&self.0).try_acquire_owned().map_err(|_| {
            error(
                ErrorCode::SandboxExhausted,
                format!("{AT_A_TIME} archives are under way in the session already"),
            )
        })
    }

    /// Starts work that ends by itself when its pipe is closed.
    fn start(&self, work: impl FnOnce() + Send + 'static) -> Result<(), ConnectError> {
        let place = self.place()?;
        thread::Builder::new()
            .name("archive".into())
            .stack_size(512 * 1024)
            .spawn(move || {
                work();
                drop(place);
            })
            .map(drop)
            .map_err(|cause: io::Error| crate::error::from_io(&cause, "the archive"))
    }
}
