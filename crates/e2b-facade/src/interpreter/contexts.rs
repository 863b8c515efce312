//! The contexts of a sandbox: `/contexts`.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use e2b_wire::interpreter::{Context, NewContext};
use http::StatusCode;
use sandbox_core::{ContextDriver, ContextInfo, ContextName, ErrorCode, InContext, RunRequest};
use sandbox_http::Language;
use sandbox_session::Lease;
use uuid::Uuid;

use super::{Plain, Refused, directories::Begun};
use crate::{sandbox::Found, state::Facade};

const USUAL_LANGUAGE: &str = "python";
const WORKSPACE: &str = "/workspace";
/// For the start of an interpreter and one statement.
const BEGIN_LIMIT: Duration = Duration::from_secs(30);
const BEGIN_OUTPUT: u64 = 4096;

pub(super) async fn create(
    facade: &Facade,
    found: &Found,
    lease: &Lease,
    new: NewContext,
) -> Result<Response, Refused> {
    let name = new.language.as_deref().unwrap_or(USUAL_LANGUAGE);
    let language = language(facade, name)?;
    let Some(driver) = language.context() else {
        return Err(Plain::bad(format!("Language {name} has no contexts here")).into());
    };
    let id = Uuid::new_v4().to_string();
    let cwd = new.cwd.filter(|cwd| !cwd.is_empty());
    begin(facade, found, lease, &id, language, driver, cwd.as_deref()).await?;
    // Now and then, so that those of sandboxes that have ended are not kept.
    facade
        .directories
        .forget_unless(|key| facade.sessions.knows(key));
    let begun = Begun {
        cwd: cwd.clone(),
        own_runs: 1,
    };
    facade.directories.put(&found.key, &id, begun);
    Ok(Json(Context {
        id,
        language: language.name().to_owned(),
        cwd: cwd.unwrap_or_else(|| WORKSPACE.to_owned()),
    })
    .into_response())
}

/// Starts the interpreter, in its folder.
async fn begin(
    facade: &Facade,
    found: &Found,
    lease: &Lease,
    id: &str,
    language: &Language,
    driver: ContextDriver,
    cwd: Option<&str>,
) -> Result<(), Refused> {
    let name: ContextName = id.parse()?;
    let request = RunRequest {
        program: language.run(first_statement(driver, cwd), Vec::new()),
        env: BTreeMap::new(),
        cwd: None,
        stdin: Bytes::new(),
        timeout: BEGIN_LIMIT,
        output_limit: BEGIN_OUTPUT,
        live: false,
        spill_limit: 0,
        artifacts: None,
        python_display: false,
        context: Some(InContext {
            name: name.clone(),
            language: language.name().to_owned(),
            driver,
            limits: facade.settings.http.contexts,
        }),
    };
    let run = async { lease.guest().run(request).await?.collect().await };
    let outcome = lease.call(run).await.map_err(|error| match error.code() {
        ErrorCode::NotInstalled => Refused::from(Plain::bad(language.missing())),
        _ => error.into(),
    })?;
    if outcome.exit_code == 0 && outcome.raised.is_none() {
        return Ok(());
    }
    // What it says is of the client's own folder.
    let why = match &outcome.raised {
        Some(raised) => raised.value.clone(),
        None => outcome.stderr.to_text(),
    };
    tracing::debug!(session.id = %found.key.session, "a context did not begin");
    let _ = lease.call(lease.guest().delete_context(&name)).await;
    Err(Plain::bad(format!("the context cannot begin: {why}")).into())
}

/// A statement that shows nothing; each language reads JSON's strings as its own.
fn first_statement(driver: ContextDriver, cwd: Option<&str>) -> String {
    let quoted = |cwd: &str| serde_json::Value::from(cwd).to_string();
    match (driver, cwd) {
        (ContextDriver::Python, Some(cwd)) => format!("__import__('os').chdir({})", quoted(cwd)),
        (ContextDriver::JavaScript, Some(cwd)) => format!("process.chdir({});", quoted(cwd)),
        (ContextDriver::R, Some(cwd)) => format!("invisible(setwd({}))", quoted(cwd)),
        (ContextDriver::Bash, Some(cwd)) => format!("cd -- '{}'", cwd.replace('\'', r"'\''")),
        (ContextDriver::Python, None) => "pass".to_owned(),
        (ContextDriver::JavaScript, None) => "void 0;".to_owned(),
        (ContextDriver::R, None) => "invisible(NULL)".to_owned(),
        (ContextDriver::Bash, None) => ":".to_owned(),
    }
}

pub(super) async fn list(
    facade: &Facade,
    found: &Found,
    lease: &Lease,
) -> Result<Response, Refused> {
    let contexts = lease.call(lease.guest().contexts()).await?;
    let names: Vec<&str> = contexts.iter().map(|info| info.name.as_str()).collect();
    facade.directories.keep(&found.key, &names);
    let contexts: Vec<Context> = contexts
        .into_iter()
        .map(|info| Context {
            cwd: facade
                .directories
                .of(&found.key, &info.name)
                .cwd
                .unwrap_or_else(|| WORKSPACE.to_owned()),
            id: info.name,
            language: info.language,
        })
        .collect();
    Ok(Json(contexts).into_response())
}

pub(super) async fn delete(
    facade: &Facade,
    found: &Found,
    lease: &Lease,
    id: &str,
) -> Result<Response, Refused> {
    let name = known(lease, id).await?.0;
    lease
        .call(lease.guest().delete_context(&name))
        .await
        .map_err(|error| unknown_or(error, id))?;
    facade.directories.put(&found.key, id, Begun::default());
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn restart(
    facade: &Facade,
    found: &Found,
    lease: &Lease,
    id: &str,
) -> Result<Response, Refused> {
    let (name, info) = known(lease, id).await?;
    lease
        .call(lease.guest().restart_context(&name))
        .await
        .map_err(|error| unknown_or(error, id))?;
    let begun = facade.directories.of(&found.key, id);
    let language = language(facade, &info.language)?;
    let mut own_runs = 0;
    if let (Some(cwd), Some(driver)) = (&begun.cwd, language.context()) {
        begin(facade, found, lease, id, language, driver, Some(cwd)).await?;
        own_runs = 1;
    }
    facade
        .directories
        .put(&found.key, id, Begun { own_runs, ..begun });
    Ok(StatusCode::OK.into_response())
}

/// A context that lives.
pub(super) async fn known(lease: &Lease, id: &str) -> Result<(ContextName, ContextInfo), Refused> {
    let name: ContextName = id.parse().map_err(|_| Plain::no_context(id))?;
    let contexts = lease.call(lease.guest().contexts()).await?;
    let info = contexts.into_iter().find(|info| info.name == id);
    info.map(|info| (name, info))
        .ok_or_else(|| Plain::no_context(id).into())
}

fn unknown_or(error: sandbox_core::Error, id: &str) -> Refused {
    match error.code() {
        ErrorCode::NotFound => Plain::no_context(id).into(),
        _ => error.into(),
    }
}

pub(super) fn language<'a>(facade: &'a Facade, name: &str) -> Result<&'a Language, Refused> {
    let languages = &facade.settings.http.languages;
    languages
        .get(name)
        .map_err(|error| Plain::bad(error.detail()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_data_in_every_language() {
        let evil = "a'b\"c\\d$(x)";
        for (driver, statement) in [
            (
                ContextDriver::Python,
                r#"__import__('os').chdir("a'b\"c\\d$(x)")"#,
            ),
            (
                ContextDriver::JavaScript,
                r#"process.chdir("a'b\"c\\d$(x)");"#,
            ),
            (ContextDriver::R, r#"invisible(setwd("a'b\"c\\d$(x)"))"#),
            (ContextDriver::Bash, r#"cd -- 'a'\''b"c\d$(x)'"#),
        ] {
            assert_eq!(first_statement(driver, Some(evil)), statement);
        }
    }
}
