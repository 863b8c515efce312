//! The service `sandbox.v1.Life`: all processes of the sandbox stopped, and let go on.
//!
//! ```text
//! awake ── Freeze ──> frozen: every process is stopped, what starts any waits
//!   └────── Thaw ───────┘     limits of time stand still
//! ```
//!
//! Only an init has all processes of its namespace, and is itself not stopped.

mod clock;
mod stop;

use std::sync::Arc;

pub(crate) use clock::{Began, awake, sleep, timeout};
use connectrpc::{ConnectError, RequestContext, Response, ServiceRequest, ServiceResult};
use rustix::process::{Pid, getpid};
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{FreezeRequest, FreezeResponse, Life, ThawRequest, ThawResponse};
use stop::Stopped;
use tokio::sync::Mutex;

use crate::error::error;

#[derive(Default)]
pub(crate) struct LifeService {
    /// One change at a time; what was stopped by programs themselves, while frozen.
    stopped: Arc<Mutex<Option<Stopped>>>,
}

fn check_is_init() -> Result<(), ConnectError> {
    if getpid() == Pid::INIT {
        return Ok(());
    }
    Err(error(
        ErrorCode::Unsupported,
        "the guest is not the init of its sandbox, and cannot stop all of its processes",
    ))
}

impl Life for LifeService {
    async fn freeze(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, FreezeRequest>,
    ) -> ServiceResult<FreezeResponse> {
        check_is_init()?;
        let mut stopped = Arc::clone(&self.stopped).lock_owned().await;
        // In a task of its own: a caller who goes away leaves nothing half frozen.
        let frozen = tokio::spawn(async move {
            // Before anything stops, so that no limit of time takes it for a fault.
            clock::freeze();
            let earlier = stopped.take();
            // On this thread, which starts programs too: one that is stopped before it has
            // become its program would hold up who starts it, and that is then not here.
            match stop::all(earlier) {
                Ok(now) => {
                    *stopped = Some(now);
                    Ok(())
                }
                Err(earlier) => {
                    stop::go_on(&earlier);
                    clock::thaw();
                    Err(error(
                        ErrorCode::SandboxExhausted,
                        "the processes of the sandbox start others faster than they can be stopped",
                    ))
                }
            }
        });
        frozen.await.map_err(broken)??;
        Response::ok(FreezeResponse::default())
    }

    async fn thaw(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, ThawRequest>,
    ) -> ServiceResult<ThawResponse> {
        check_is_init()?;
        let mut stopped = Arc::clone(&self.stopped).lock_owned().await;
        let thawed = tokio::spawn(async move {
            if let Some(earlier) = stopped.take() {
                stop::go_on(&earlier);
                clock::thaw();
            }
        });
        thawed.await.map_err(broken)?;
        Response::ok(ThawResponse::default())
    }
}

fn broken(_: tokio::task::JoinError) -> ConnectError {
    error(ErrorCode::Internal, "the change was broken off")
}
