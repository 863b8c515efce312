//! GET /languages: the table, and which of it work in a sandbox of the default backend.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::extract::State;
use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use sandbox_core::{Program, RunRequest, TenantId};
use serde::Serialize;
use tracing::warn;
use utoipa::ToSchema;

use crate::{
    AppState, LanguageTable,
    caller::Caller,
    extract::Json,
    languages::Language,
    problem::{ApiResult, Problem},
};

/// How long what a look found is told again: an image seldom changes.
const KEPT: Duration = Duration::from_secs(5 * 60);
/// What a look that failed is told again for, so that it cannot be asked for in a row.
const FAILURE_KEPT: Duration = Duration::from_secs(5);
/// For the version commands of all languages together.
const LOOK_LIMIT: Duration = Duration::from_secs(30);
/// Whose sandbox is asked: the answer is for all, so it counts for no caller.
const TENANT: &str = "sandboxd";
const MAX_OUTPUT_BYTES: u64 = 64 << 10;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LanguagesResponse {
    /// By name.
    languages: Vec<LanguageResponse>,
}

/// A language of POST /execute.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LanguageResponse {
    #[schema(example = "javascript")]
    name: String,
    /// Other names that /execute takes.
    #[schema(example = json!(["js", "node", "nodejs"]))]
    aliases: Vec<String>,
    /// The interpreter or compiler.
    #[schema(example = "node")]
    runtime: String,
    /// What the code's file is called in tracebacks, but for a part that is each run's own.
    #[schema(example = "main.js")]
    file_name: String,
    /// A compiler runs first; where it fails, `meta.phase` of the run is `compile`.
    compiled: bool,
    /// Runs may name a `context`, whose variables stay.
    contexts: bool,
    /// Whether it works in a sandbox; null when none could be asked.
    available: Option<bool>,
    /// What the interpreter or compiler says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "v20.11.0")]
    version: Option<String>,
    /// What is not there, where it does not work.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
    /// How an operator gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "Debian package nodejs")]
    install: Option<String>,
}

/// The languages, and which of them work here
///
/// A sandbox is asked once in five minutes, so the first call takes longer.
#[utoipa::path(
    get, path = "/languages", tag = "run",
    responses((status = 200, description = "Every language that /execute takes", body = LanguagesResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn languages(
    _caller: Caller,
    State(state): State<AppState>,
) -> ApiResult<Json<LanguagesResponse>> {
    let found = state.languages_found.look(&state).await;
    let languages = state
        .settings
        .languages
        .all()
        .map(|language| describe(language, found.as_deref()))
        .collect();
    Ok(Json(LanguagesResponse { languages }))
}

fn describe(language: &Language, found: Option<&Found>) -> LanguageResponse {
    let found = found.and_then(|found| found.get(language.name()));
    LanguageResponse {
        name: language.name().to_owned(),
        aliases: language.aliases().to_vec(),
        runtime: language.program().to_owned(),
        file_name: language.file_name().to_owned(),
        compiled: language.is_compiled(),
        contexts: language.context().is_some(),
        available: found.map(Result::is_ok),
        version: found
            .and_then(|found| found.as_ref().ok())
            .filter(|version| !version.is_empty())
            .cloned(),
        missing: found
            .filter(|found| found.is_err())
            .map(|_| language.missing()),
        install: language.install().map(str::to_owned),
    }
}

/// The version of each language that was asked for, or that it does not work.
type Found = BTreeMap<String, Result<String, NotWorking>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NotWorking;

struct Asked {
    at: Instant,
    answer: Shared<BoxFuture<'static, Option<Arc<Found>>>>,
}

/// What the last look into a sandbox found; callers at the same time share one.
#[derive(Default)]
pub(crate) struct LanguageCache(Mutex<Option<Asked>>);

impl LanguageCache {
    async fn look(&self, state: &AppState) -> Option<Arc<Found>> {
        let answer = {
            let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match &*asked {
                Some(asked) if asked.is_fresh() => asked.answer.clone(),
                _ => {
                    let answer = ask(state.clone()).boxed().shared();
                    *asked = Some(Asked {
                        at: Instant::now(),
                        answer: answer.clone(),
                    });
                    answer
                }
            }
        };
        answer.await
    }
}

impl Asked {
    fn is_fresh(&self) -> bool {
        let kept = match self.answer.peek() {
            Some(Some(_)) => KEPT,
            Some(None) => FAILURE_KEPT,
            // Under way; one that nobody waits for any more is not waited for either.
            None => LOOK_LIMIT * 2,
        };
        self.at.elapsed() < kept
    }
}

/// Runs every version command in a sandbox of its own, which ends after it.
async fn ask(state: AppState) -> Option<Arc<Found>> {
    let tenant: TenantId = TENANT.parse().ok()?;
    let request = RunRequest {
        program: Program {
            argv: vec!["sh".into(), "-c".into(), script(&state.settings.languages)],
            script: None,
        },
        env: BTreeMap::new(),
        cwd: None,
        stdin: Default::default(),
        timeout: LOOK_LIMIT,
        output_limit: MAX_OUTPUT_BYTES,
        live: false,
        spill_limit: 0,
        artifacts: None,
        python_display: false,
        context: None,
    };
    match state.sessions.run(&tenant, None, Vec::new(), request).await {
        Ok(report) => Some(Arc::new(read(&report.outcome.stdout.to_text()))),
        Err(error) => {
            warn!(
                error.code = error.code().as_str(),
                "no sandbox could be asked for its languages: {error}"
            );
            None
        }
    }
}

/// One line for each language: its name, the command's exit code, what it printed first.
fn script(languages: &LanguageTable) -> String {
    let mut script = String::from(
        "nl='\n'\n\
         ask() {\n\
         name=$1; shift\n\
         text=$(\"$@\" </dev/null 2>&1); code=$?\n\
         printf '%s\\t%s\\t%.200s\\n' \"$name\" \"$code\" \"${text%%\"$nl\"*}\"\n\
         }\n",
    );
    for language in languages.all() {
        script.push_str("ask ");
        script.push_str(&quote(language.name()));
        for word in language.version() {
            script.push(' ');
            script.push_str(&quote(word));
        }
        script.push('\n');
    }
    script
}

/// As one word of a shell; what is quoted is the operator's, never a request's.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn read(text: &str) -> Found {
    text.lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, '\t');
            let (name, code, version) = (parts.next()?, parts.next()?, parts.next()?);
            let found = match code {
                "0" => Ok(version.trim().to_owned()),
                _ => Err(NotWorking),
            };
            Some((name.to_owned(), found))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_answers_for_each_language_whatever_its_command_is() {
        let table = LanguageTable::built_in()
            .unwrap()
            .extended_by(
                "[here]\nfile = 'a'\ncommand = ['x', '{file}']\n\
                 version = ['printf', \"it's %s\\\\nmore\\\\n\", '$(id) \"`']\n\
                 [gone]\nfile = 'a'\ncommand = ['no-such-program', '{file}']\n\
                 [fails]\nfile = 'a'\ncommand = ['false', '{file}']",
            )
            .unwrap()
            .restricted_to(&["here".to_owned(), "gone".to_owned(), "fails".to_owned()])
            .unwrap();
        let output = Command::new("sh")
            .args(["-c", &script(&table)])
            .output()
            .unwrap();
        assert_eq!(
            read(&String::from_utf8(output.stdout).unwrap()),
            Found::from([
                ("here".to_owned(), Ok("it's $(id) \"`".to_owned())),
                ("gone".to_owned(), Err(NotWorking)),
                ("fails".to_owned(), Err(NotWorking)),
            ])
        );
    }
}
