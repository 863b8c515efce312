//! Whole trees in and out of the workspace. No archive goes into the sandbox, and none that
//! was made there comes out: its entries do, one by one, so that neither side need have tar.

mod export;
mod import;
mod merge;
mod stage;

use std::{io, sync::Arc, thread};

use connectrpc::ConnectError;
use guest_parts::error::{error, from_io};
use sandbox_core::ErrorCode;

pub(crate) use export::export;
pub(crate) use import::import;

use crate::state::State;

/// Starts work on a thread of its own, that ends by itself when its pipe is closed.
fn start(state: &State, work: impl FnOnce() + Send + 'static) -> Result<(), ConnectError> {
    let place = Arc::clone(&state.archives)
        .try_acquire_owned()
        .map_err(|_| {
            error(
                ErrorCode::SandboxExhausted,
                "as many archives as may be are under way in the session already",
            )
        })?;
    thread::Builder::new()
        .name("archive".into())
        .stack_size(512 * 1024)
        .spawn(move || {
            work();
            drop(place);
        })
        .map(drop)
        .map_err(|cause: io::Error| from_io(&cause, "the archive"))
}
