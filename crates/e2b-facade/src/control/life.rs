//! The time of a sandbox, its pause and its end.

use std::time::Duration;

use axum::extract::State;
use e2b_wire::{PauseSandbox, RefreshSandbox, SandboxTimeout};
use http::StatusCode;
use sandbox_core::{Error, ErrorCode};
use sandbox_session::SessionState;

use super::{
    Own,
    extract::{Id, Json},
    own, timeout,
};
use crate::{
    caller::Caller,
    error::{Answer, Refusal},
    sandbox::no_sandbox,
    state::Facade,
};

/// Of a refresh that names no time.
const REFRESH_SECONDS: u32 = 15;

/// `DELETE /sandboxes/{id}`.
pub(super) async fn kill(
    caller: Caller,
    State(facade): State<Facade>,
    Id(id): Id,
) -> Answer<StatusCode> {
    let own = own(&facade, &caller, &id)?;
    if facade.sessions.delete(&own.key).await? {
        facade.directories.forget(&own.key);
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(no_sandbox(&id).into())
    }
}

/// `POST /sandboxes/{id}/timeout`: from now on, sooner or later than before.
pub(super) async fn set_timeout(
    caller: Caller,
    State(facade): State<Facade>,
    Id(id): Id,
    Json(wanted): Json<SandboxTimeout>,
) -> Answer<StatusCode> {
    let own = own(&facade, &caller, &id)?;
    let time = timeout(&facade, wanted.timeout)?;
    set_end(&facade, &own, time).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /sandboxes/{id}/refreshes`: later than before, never sooner.
pub(super) async fn refresh(
    caller: Caller,
    State(facade): State<Facade>,
    Id(id): Id,
    Json(wanted): Json<RefreshSandbox>,
) -> Answer<StatusCode> {
    let own = own(&facade, &caller, &id)?;
    let time = timeout(&facade, wanted.duration.unwrap_or(REFRESH_SECONDS))?;
    prolong(&facade, &own, time).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lets it live for this long from now on, if that is longer than it would.
pub(super) async fn prolong(facade: &Facade, own: &Own, time: Duration) -> Answer<()> {
    let wanted = facade.clock.now().plus(time);
    match own.info.ends {
        Some(ends) if ends >= wanted => Ok(()),
        _ => set_end(facade, own, time).await,
    }
}

async fn set_end(facade: &Facade, own: &Own, time: Duration) -> Answer<()> {
    let ends = facade.clock.now().plus(time);
    let set = facade.sessions.set_end(&own.key, ends).await;
    set.map_err(|error| while_asked(own, error))
}

/// `POST /sandboxes/{id}/pause`: 409 where it is paused.
pub(super) async fn pause(
    caller: Caller,
    State(facade): State<Facade>,
    Id(id): Id,
    Json(wanted): Json<PauseSandbox>,
) -> Answer<StatusCode> {
    let own = own(&facade, &caller, &id)?;
    if own.info.state == SessionState::Paused {
        return Err(already_paused(&own));
    }
    if wanted.require_healthy_guest == Some(true) {
        let lease = facade.sessions.lease_existing(&own.key).await?;
        lease.call(lease.guest().health()).await?;
    }
    let paused = facade
        .sessions
        .pause(&own.key, wanted.memory.unwrap_or(true))
        .await;
    match paused {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(error) if error.code() == ErrorCode::SessionPaused => Err(already_paused(&own)),
        Err(error) => Err(while_asked(&own, error)),
    }
}

fn already_paused(own: &Own) -> Refusal {
    Refusal::new(
        StatusCode::CONFLICT,
        format!("sandbox \"{}\" is already paused", own.key.session),
    )
}

/// It may have ended since it was looked at.
fn while_asked(own: &Own, error: Error) -> Refusal {
    match error.code() {
        ErrorCode::NotFound => no_sandbox(own.key.session.as_str()).into(),
        _ => error.into(),
    }
}
