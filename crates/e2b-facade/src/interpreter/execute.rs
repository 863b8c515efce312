//! `POST /execute`: code in a context, its output line by line.

use std::collections::BTreeMap;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use e2b_wire::interpreter::{Execute, Line};
use futures::{StreamExt as _, stream};
use http::header;
use sandbox_core::{ContextDriver, ContextName, ErrorCode, InContext, RunRequest};
use sandbox_execution::ExecutionRequest;
use sandbox_http::Language;
use sandbox_session::Lease;
use sandbox_store::AuditAction;

use super::{Plain, Refused, contexts, keepalive::KeptAlive, lines::lines};
use crate::{sandbox::Found, state::Facade};

const USUAL_LANGUAGE: &str = "python";
const PYTHON: &str = "python";

/// Runs it; a client that goes away interrupts it.
pub(super) async fn execute(
    facade: &Facade,
    found: &Found,
    lease: Lease,
    asked: Execute,
) -> Result<Response, Refused> {
    let place = place(facade, &lease, &asked).await?;
    let request = request(facade, found, &place, asked)?;
    let attachment = facade.executions.start(request)?;
    if let Err(error) = attachment.started().await {
        return Err(match error.code() {
            ErrorCode::NotInstalled => Plain::bad(place.language.missing()).into(),
            _ => error.into(),
        });
    }
    let number = match &place.context {
        Some((name, _)) => number(facade, found, &lease, name).await,
        None => 1,
    };
    let first = stream::iter([Ok(Line::NumberOfExecutions {
        execution_count: number,
    })]);
    let lines = lines(facade, &found.key, attachment.events(0), lease);
    let body = KeptAlive::new(Box::pin(first.chain(lines)));
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, Body::from_stream(body)).into_response())
}

/// Where code is run.
struct Place<'a> {
    language: &'a Language,
    /// `None`: as a program of its own, for the language has no contexts.
    context: Option<(ContextName, ContextDriver)>,
}

async fn place<'a>(
    facade: &'a Facade,
    lease: &Lease,
    asked: &Execute,
) -> Result<Place<'a>, Refused> {
    let id = asked.context_id.as_deref().filter(|id| !id.is_empty());
    let language = asked.language.as_deref().filter(|name| !name.is_empty());
    if id.is_some() && language.is_some() {
        let both = "Only one of context_id or language can be provided";
        return Err(Plain::bad(both).into());
    }
    if let Some(id) = id {
        let (name, info) = contexts::known(lease, id).await?;
        let language = contexts::language(facade, &info.language)?;
        let driver = language.context().ok_or_else(|| Plain::no_context(id))?;
        return Ok(Place {
            language,
            context: Some((name, driver)),
        });
    }
    let language = contexts::language(facade, language.unwrap_or(USUAL_LANGUAGE))?;
    let context = match language.context() {
        Some(driver) => Some((format!("default-{}", language.name()).parse()?, driver)),
        None => None,
    };
    Ok(Place { language, context })
}

fn request(
    facade: &Facade,
    found: &Found,
    place: &Place<'_>,
    asked: Execute,
) -> Result<ExecutionRequest, Refused> {
    let settings = &facade.settings.http;
    if asked.code.len() > settings.max_code_bytes {
        let most = settings.max_code_bytes;
        return Err(Plain::bad(format!("the code is longer than {most} bytes")).into());
    }
    let env = asked.env_vars.unwrap_or_default();
    let name = place.language.name();
    Ok(ExecutionRequest {
        tenant: found.key.tenant.clone(),
        session: Some(found.key.session.clone()),
        existing: true,
        id: None,
        files: Vec::new(),
        action: AuditAction::Execute,
        code: asked.code.clone(),
        language: name.to_owned(),
        runtime: place.language.program().to_owned(),
        missing: place.language.missing(),
        detach: false,
        // Who has its token; which key that came from is not known.
        subject: format!("sandbox:{}", found.key.session),
        request_id: None,
        run: RunRequest {
            program: place.language.run(asked.code, Vec::new()),
            env: environment(env)?,
            cwd: None,
            stdin: Bytes::new(),
            // The SDKs end what takes too long by going away.
            timeout: settings.max_timeout,
            output_limit: settings.max_output_bytes,
            live: true,
            spill_limit: settings.spill_bytes,
            artifacts: None,
            python_display: name == PYTHON,
            context: place.context.as_ref().map(|(name, driver)| InContext {
                name: name.clone(),
                language: place.language.name().to_owned(),
                driver: *driver,
                limits: settings.contexts,
            }),
        },
    })
}

/// What a program's environment may hold.
fn environment(env: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Refused> {
    crate::control::environment("env_vars", env)
        .map_err(|refusal| Plain::bad(refusal.message()).into())
}

/// Which run of its context it is, without those that nobody asked for.
async fn number(facade: &Facade, found: &Found, lease: &Lease, name: &ContextName) -> u64 {
    let own = facade.directories.of(&found.key, name.as_str()).own_runs;
    let contexts = lease.call(lease.guest().contexts()).await;
    let info = contexts
        .unwrap_or_default()
        .into_iter()
        .find(|info| info.name == name.as_str());
    info.map_or(1, |info| info.runs.saturating_sub(own).max(1))
}
