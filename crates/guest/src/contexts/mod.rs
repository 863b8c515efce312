//! The service `sandbox.v1.Contexts`: interpreters that stay alive between runs.
//!
//! ```text
//! run --> table --> life of one context --> interpreter --(two pipes)--> context.py
//!           by name    one run at a time       stdout, stderr     runs the code
//! ```
//!
//! The interpreter is a program of the sandbox like any other, under a supervisor,
//! and code that runs in it can do to it what it likes: what it says is input.

mod channel;
mod driver;
mod environment;
mod interpreter;
mod life;
mod prepared;
mod run;
mod table;
mod usage;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use connectrpc::{
    ConnectError, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream,
};
use driver::Driver;
use environment::Around;
use futures::stream;
use interpreter::{Maker, Spec};
use life::{Context as Living, Work};
use run::Wish;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{
    Context, Contexts, DeleteContextRequest, DeleteContextResponse, ListContextsRequest,
    ListContextsResponse, RestartContextRequest, RestartContextResponse, RunInContextRequest,
    RunResponse,
};
use table::{Make, Table};
use tokio::sync::mpsc;

use crate::{
    error::error,
    run::{EVENTS_WAITING, Starter},
    state::Guest,
    warm::Warm,
};

pub(crate) struct ContextService {
    guest: Arc<Guest>,
    table: Table,
}

impl ContextService {
    pub fn new(guest: Arc<Guest>, starter: Starter, warm: Option<Warm>) -> Self {
        let maker = Maker {
            guest: Arc::clone(&guest),
            starter,
            warm,
        };
        Self {
            guest,
            table: Table::new(maker),
        }
    }
}

impl Contexts for ContextService {
    async fn run(
        &self,
        _context: RequestContext,
        request: ServiceRequest<'_, RunInContextRequest>,
    ) -> ServiceResult<ServiceStream<RunResponse>> {
        let request = request.to_owned_message();
        if request.context.is_empty() || request.argv.is_empty() {
            return Err(error(ErrorCode::InvalidRequest, "context or argv is empty"));
        }
        if !request.env.keys().all(|name| environment::is_name(name)) {
            let detail = "env has a name that is not [A-Za-z_][A-Za-z0-9_]*";
            return Err(error(ErrorCode::InvalidRequest, detail));
        }
        if request.env.values().any(|value| value.contains('\0')) {
            return Err(error(ErrorCode::InvalidRequest, "env has a NUL character"));
        }
        let env: BTreeMap<String, String> = request.env.into_iter().collect();
        let driver = Driver::named(&request.driver)?;
        let limits = request.limits.into_option().unwrap_or_default();
        let artifacts = request.artifacts.into_option();
        let wish = Arc::new(Wish {
            code: request.code,
            around: Around::of(driver, &env, &self.guest.env()),
            env,
            timeout: Duration::from_millis(request.timeout_ms.into()),
            grace: Duration::from_millis(request.grace_ms.into()),
            output_limit: request.output_limit_bytes,
            live: request.live,
            spill_limit: request.spill_limit_bytes,
            artifacts,
        });
        let make = Make {
            language: request.language,
            spec: Spec {
                driver,
                argv: request.argv,
                data_bytes: (limits.data_bytes > 0).then_some(limits.data_bytes),
                artifacts: wish.artifacts.is_some(),
            },
            idle: (limits.idle_ms > 0).then(|| Duration::from_millis(limits.idle_ms)),
            max_contexts: usize::try_from(limits.max_contexts).unwrap_or(usize::MAX),
            first: Some(Arc::clone(&wish)),
        };
        // The run is a task of the context: who goes away cannot leave it half done.
        let (events, mut received) = mpsc::channel(EVENTS_WAITING);
        self.table
            .take(&request.context, &make, || {
                Work::Run(Arc::clone(&wish), events.clone())
            })
            .await?;
        drop(events);
        Ok(Response::stream(stream::poll_fn(move |cx| {
            received.poll_recv(cx)
        })))
    }

    async fn list(
        &self,
        _context: RequestContext,
        _request: ServiceRequest<'_, ListContextsRequest>,
    ) -> ServiceResult<ListContextsResponse> {
        let all = self.table.all();
        let contexts = all.iter().map(|(name, context)| told(name, context));
        Response::ok(ListContextsResponse {
            contexts: contexts.collect(),
            ..Default::default()
        })
    }

    async fn restart(
        &self,
        _context: RequestContext,
        request: ServiceRequest<'_, RestartContextRequest>,
    ) -> ServiceResult<RestartContextResponse> {
        let request = request.to_owned_message();
        let (table, name) = (self.table.clone(), request.context.clone());
        // Also when the caller has gone: it would be missing.
        let context = tokio::spawn(async move { table.restart(&name).await })
            .await
            .map_err(|_| broken_off())??;
        Response::ok(RestartContextResponse {
            context: told(&request.context, &context).into(),
            ..Default::default()
        })
    }

    async fn delete(
        &self,
        _context: RequestContext,
        request: ServiceRequest<'_, DeleteContextRequest>,
    ) -> ServiceResult<DeleteContextResponse> {
        self.table
            .delete(&request.to_owned_message().context)
            .await?;
        Response::ok(DeleteContextResponse::default())
    }
}

fn broken_off() -> ConnectError {
    error(ErrorCode::Internal, "the restart was broken off")
}

fn told(name: &str, context: &Living) -> Context {
    let told = context.told();
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Context {
        name: name.to_owned(),
        language: context.language.clone(),
        pid: u32::try_from(told.pid).unwrap_or(0),
        busy: told.busy,
        runs: told.runs,
        age_ms: millis(told.began.elapsed()),
        idle_ms: match told.busy {
            true => 0,
            false => millis(told.used.elapsed()),
        },
        memory_bytes: usage::memory_bytes(told.pid).0,
        ..Default::default()
    }
}
