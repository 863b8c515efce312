//! Interpreters that stay alive between runs.

use std::time::Duration;

use connectrpc::client::CallOptions;
use sandbox_core::{ContextEnd, ContextInfo, ContextLoss, ContextName, Error, Result, RunRequest};
use sandbox_wire::sandbox::v1 as wire;

use crate::{
    GuestClient,
    error::from_guest,
    run::{GRACE, broken, limits, millis},
};

const LIST_LIMIT: Duration = Duration::from_secs(10);
/// Its processes are ended, and an interpreter may take long to start.
const CHANGE_LIMIT: Duration = Duration::from_secs(40);

pub(crate) fn message(request: RunRequest) -> Result<wire::RunInContextRequest> {
    let (Some(context), Some(script)) = (request.context, request.program.script) else {
        return Err(Error::internal("a run in a context without a script"));
    };
    let code = String::from_utf8(script.source.into()).map_err(Error::internal)?;
    let bounds = context.limits;
    Ok(wire::RunInContextRequest {
        context: context.name.as_str().to_owned(),
        language: context.language,
        driver: context.driver.as_str().to_owned(),
        argv: request.program.argv,
        code,
        timeout_ms: millis(request.timeout),
        grace_ms: millis(GRACE),
        output_limit_bytes: request.output_limit,
        live: request.live,
        spill_limit_bytes: request.spill_limit,
        artifacts: request.artifacts.map(limits).into(),
        limits: wire::ContextLimits {
            max_contexts: bounds.max_contexts,
            idle_ms: bounds.idle.map_or(0, |idle| {
                // 0 would be for ever.
                u64::try_from(idle.as_millis()).unwrap_or(u64::MAX).max(1)
            }),
            data_bytes: bounds.memory.map_or(0, |memory| memory.bytes()),
            ..Default::default()
        }
        .into(),
        env: request.env.into_iter().collect(),
        ..Default::default()
    })
}

pub(crate) fn end(end: &wire::ContextEnd) -> ContextEnd {
    let loss = match end.loss.as_known() {
        Some(wire::ContextLoss::CONTEXT_LOSS_UNSPECIFIED) => None,
        Some(wire::ContextLoss::CONTEXT_LOSS_DIED) => Some(ContextLoss::Died),
        Some(wire::ContextLoss::CONTEXT_LOSS_KILLED) => Some(ContextLoss::Killed),
        Some(wire::ContextLoss::CONTEXT_LOSS_STOPPED) => Some(ContextLoss::Stopped),
        Some(wire::ContextLoss::CONTEXT_LOSS_BROKEN) | None => Some(ContextLoss::Broken),
    };
    ContextEnd {
        created: end.created,
        loss,
    }
}

fn info(context: wire::Context) -> ContextInfo {
    ContextInfo {
        name: context.name,
        language: context.language,
        busy: context.busy,
        runs: context.runs,
        age: Duration::from_millis(context.age_ms),
        idle: Duration::from_millis(context.idle_ms),
        memory_bytes: context.memory_bytes,
    }
}

impl GuestClient {
    /// The contexts that live now.
    pub async fn contexts(&self) -> Result<Vec<ContextInfo>> {
        let options = CallOptions::default().with_timeout(LIST_LIMIT);
        let answer = self
            .contexts
            .list_with_options(wire::ListContextsRequest::default(), options)
            .await
            .map_err(from_guest)?;
        Ok(answer.into_owned().contexts.into_iter().map(info).collect())
    }

    /// Ends a context's interpreter and starts another one, without variables.
    pub async fn restart_context(&self, name: &ContextName) -> Result<ContextInfo> {
        let message = wire::RestartContextRequest {
            context: name.as_str().to_owned(),
            ..Default::default()
        };
        let options = CallOptions::default().with_timeout(CHANGE_LIMIT);
        let answer = self
            .contexts
            .restart_with_options(message, options)
            .await
            .map_err(from_guest)?;
        let context = answer.into_owned().context.into_option();
        context.map(info).ok_or_else(|| broken("no context"))
    }

    /// Ends a context and all that it started.
    pub async fn delete_context(&self, name: &ContextName) -> Result<()> {
        let message = wire::DeleteContextRequest {
            context: name.as_str().to_owned(),
            ..Default::default()
        };
        let options = CallOptions::default().with_timeout(CHANGE_LIMIT);
        self.contexts
            .delete_with_options(message, options)
            .await
            .map_err(from_guest)?;
        Ok(())
    }
}
