//! `GET /sandboxes/{id}` and what it uses now.

use axum::{Json, extract::State};
use bytes::Bytes;
use e2b_wire::{
    EnvdMetrics, Lifecycle, ListedSandbox, NetworkConfig, OnTimeout, PauseMode, SandboxDetail,
    SandboxMetric, SandboxState,
};
use guest_client::full_body;
use http::Request;
use http_body_util::{BodyExt as _, Limited};
use sandbox_core::{E2bOptions, Error, ErrorCode, NetworkPolicy, OnEnd};
use sandbox_session::{SessionInfo, SessionState};
use serde::Deserialize;

use super::{
    CLIENT_ID, ENVD_VERSION,
    extract::{Id, Query},
    own,
};
use crate::{
    caller::Caller,
    clock::time,
    error::{Answer, Refusal},
    secret::Purpose,
    state::Facade,
};

const MAX_METRICS_BYTES: usize = 64 * 1024;
const MEBIBYTE: u64 = 1 << 20;

pub(super) async fn detail(
    caller: Caller,
    State(facade): State<Facade>,
    Id(id): Id,
) -> Answer<Json<SandboxDetail>> {
    let own = own(&facade, &caller, &id)?;
    let has_internet = own.info.spec.network != NetworkPolicy::Disabled;
    Ok(Json(SandboxDetail {
        envd_access_token: Some(
            facade
                .secret
                .token(Purpose::Envd, &id, &own.options.token_salt),
        ),
        domain: facade.settings.domain.as_ref().map(ToString::to_string),
        allow_internet_access: Some(has_internet),
        network: Some(NetworkConfig {
            allow_public_traffic: Some(own.options.public_traffic),
            ..NetworkConfig::default()
        }),
        lifecycle: Some(Lifecycle {
            auto_resume: own.options.auto_resume,
            on_timeout: match own.info.options.on_end {
                OnEnd::Delete => OnTimeout::Kill,
                OnEnd::Pause | OnEnd::PauseFiles => OnTimeout::Pause,
            },
        }),
        pause_mode: own.info.paused.map(|paused| match paused.with_memory {
            true => PauseMode::Full,
            false => PauseMode::Filesystem,
        }),
        volume_mounts: None,
        listed: listed(own.info, own.options),
    }))
}

pub(super) fn listed(info: SessionInfo, options: E2bOptions) -> ListedSandbox {
    let limits = &info.spec.limits;
    let mebibytes = |bytes: u64| u32::try_from(bytes / MEBIBYTE).unwrap_or(u32::MAX);
    let ends = info.ends.or(info.expires).unwrap_or(info.last_used);
    ListedSandbox {
        template_id: options.template,
        sandbox_id: info.key.session.to_string(),
        client_id: CLIENT_ID.to_owned(),
        alias: None,
        started_at: time(info.created),
        end_at: time(ends),
        envd_version: ENVD_VERSION.to_owned(),
        // Whole ones alone: half of one is shown as one.
        cpu_count: (limits.cpus.ceil() as u32).max(1),
        memory_mb: mebibytes(limits.memory.bytes()),
        disk_size_mb: mebibytes(limits.disk.bytes()),
        state: match info.state {
            SessionState::Paused => SandboxState::Paused,
            _ => SandboxState::Running,
        },
        metadata: Some(info.options.labels),
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Range {
    /// In Unix seconds, both ends included.
    start: Option<i64>,
    end: Option<i64>,
}

/// What it uses now, where now is asked for: nothing is kept of the time before.
pub(super) async fn metrics(
    caller: Caller,
    State(facade): State<Facade>,
    Id(id): Id,
    Query(range): Query<Range>,
) -> Answer<Json<Vec<SandboxMetric>>> {
    let own = own(&facade, &caller, &id)?;
    if range
        .start
        .zip(range.end)
        .is_some_and(|(start, end)| start > end)
    {
        return Err(Refusal::bad("`start` is after `end`"));
    }
    let now = facade.clock.now().0 / 1000;
    let is_asked =
        range.start.is_none_or(|start| start <= now) && range.end.is_none_or(|end| end >= now);
    if !is_asked || own.info.state == SessionState::Paused {
        return Ok(Json(Vec::new()));
    }
    let lease = facade.sessions.lease_existing(&own.key).await?;
    let used = lease.call(used(lease.guest())).await?;
    let mut metric = SandboxMetric::from(used);
    // The machine's memory says nothing of what the sandbox may have.
    let limits = &own.info.spec.limits;
    metric.mem_total = limits.memory.bytes();
    metric.cpu_count = (limits.cpus.ceil() as u32).max(1);
    Ok(Json(vec![metric]))
}

async fn used(guest: &guest_client::GuestClient) -> sandbox_core::Result<EnvdMetrics> {
    let request = Request::get("/metrics")
        .body(full_body(Bytes::new()))
        .map_err(Error::internal)?;
    let answer = guest.forward(request).await?;
    let body = Limited::new(answer.into_body(), MAX_METRICS_BYTES);
    let body = body.collect().await.map_err(|cause| {
        Error::new(ErrorCode::SandboxLost, "the sandbox ended during the call").with_source(cause)
    })?;
    serde_json::from_slice(&body.to_bytes()).map_err(Error::internal)
}
