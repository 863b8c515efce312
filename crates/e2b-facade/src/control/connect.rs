//! `POST /sandboxes/{id}/connect` and `/resume`: a sandbox that is there, ready to use.

use std::time::Duration;

use axum::extract::State;
use e2b_wire::{ConnectSandbox, ResumeSandbox};
use http::StatusCode;
use sandbox_session::SessionState;

use super::{
    USUAL_TIMEOUT, USUAL_TIMEOUT_V1,
    create::made,
    extract::{Id, Json},
    life::prolong,
    own, timeout,
};
use crate::{
    caller::Caller,
    error::{Answer, Refusal},
    state::Facade,
};

/// 201: it was paused and goes on; 200: it runs. The time of one that runs is never cut.
pub(super) async fn connect(
    caller: Caller,
    State(facade): State<Facade>,
    Id(id): Id,
    Json(connect): Json<ConnectSandbox>,
) -> Answer {
    let own = own(&facade, &caller, &id)?;
    let time = seconds(&facade, connect.timeout, USUAL_TIMEOUT)?;
    let is_paused = own.info.state == SessionState::Paused;
    let keeps_memory = own.info.paused.is_some_and(|paused| paused.with_memory);
    if is_paused && keeps_memory && connect.memory == Some(false) {
        return Err(Refusal::unsupported(
            "a resume without the memory that the pause has kept",
        ));
    }
    let resumed = facade.sessions.resume(&own.key, Some(time)).await?;
    if resumed {
        return Ok(made(&facade, &id, &own.options, StatusCode::CREATED));
    }
    prolong(&facade, &own, time).await?;
    Ok(made(&facade, &id, &own.options, StatusCode::OK))
}

/// Of older SDKs: 409 where it runs.
pub(super) async fn resume(
    caller: Caller,
    State(facade): State<Facade>,
    Id(id): Id,
    Json(resume): Json<ResumeSandbox>,
) -> Answer {
    let own = own(&facade, &caller, &id)?;
    let time = seconds(&facade, resume.timeout, USUAL_TIMEOUT_V1)?;
    if resume
        .auto_pause
        .is_some_and(|pause| pause != (own.info.options.on_end != sandbox_core::OnEnd::Delete))
    {
        return Err(Refusal::unsupported(
            "`autoPause` that is not what the sandbox was made with",
        ));
    }
    if !facade.sessions.resume(&own.key, Some(time)).await? {
        return Err(Refusal::new(
            StatusCode::CONFLICT,
            format!("sandbox \"{id}\" is not paused"),
        ));
    }
    Ok(made(&facade, &id, &own.options, StatusCode::CREATED))
}

fn seconds(facade: &Facade, asked: Option<u32>, usual: Duration) -> Answer<Duration> {
    match asked {
        Some(seconds) => timeout(facade, seconds),
        None => Ok(usual.min(facade.settings.max_timeout)),
    }
}
