//! POST /grep and /glob: library calls in the guest, within a time and a size.

use std::time::Duration;

use axum::extract::State;
use guest_client::messages as guest;
use sandbox_core::{SessionId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    AppState,
    caller::Caller,
    extract::Json,
    files::workspace,
    problem::{ApiError, ApiResult, Problem},
};

/// What is found by then is the answer.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Most text of one answer.
const MAX_TEXT_BYTES: u64 = 8 << 20;
const MAX_RESULTS: u32 = 10_000;
const MAX_CONTEXT_LINES: u32 = 100;

/// A regular expression to look for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrepBody {
    /// In the syntax of Rust's regex crate: linear time, no look-around.
    pattern: String,
    /// A directory or a file, relative to the workspace, which is the default.
    #[serde(default = "workspace")]
    #[schema(default = workspace)]
    path: String,
    /// Only files whose path matches, as in a line of .gitignore.
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    /// The pattern is plain text.
    #[serde(default)]
    literal: bool,
    /// A match may cross lines.
    #[serde(default)]
    multiline: bool,
    /// Lines to show before each match.
    #[serde(default)]
    #[schema(maximum = 100)]
    before: u32,
    /// Lines to show after each match.
    #[serde(default)]
    #[schema(maximum = 100)]
    after: u32,
    #[serde(default = "default_results")]
    #[schema(minimum = 1, maximum = 10000, default = default_results)]
    max_matches: u32,
    #[serde(default)]
    output: GrepOutput,
    /// Look into hidden files too.
    #[serde(default)]
    hidden: bool,
    /// Look into what .gitignore leaves out too.
    #[serde(default)]
    no_ignore: bool,
    /// The token's tenant when it is absent.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    #[schema(value_type = String)]
    session_id: SessionId,
}

fn default_results() -> u32 {
    1000
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GrepOutput {
    /// Every matching line.
    #[default]
    Matches,
    /// Only the files that have one.
    Files,
    /// How many each file has.
    Count,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GrepResponse {
    /// Empty for the outputs `files` and `count`.
    matches: Vec<GrepMatch>,
    /// The files that have a match.
    files: Vec<GrepFile>,
    /// There is more than is shown.
    truncated: bool,
    /// Not every file was looked into within 10 s.
    timed_out: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GrepMatch {
    path: String,
    /// From 1.
    line: u64,
    /// Of the first match in the line, in characters from 1.
    column: u64,
    text: String,
    before: Vec<String>,
    after: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GrepFile {
    path: String,
    /// For the output `count`.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

/// Search in files
///
/// Hidden files and those that .gitignore names are left out, and links are not followed.
#[utoipa::path(
    post, path = "/grep", tag = "search",
    request_body = GrepBody,
    responses((status = 200, description = "What was found", body = GrepResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn grep(
    caller: Caller,
    State(state): State<AppState>,
    Json(body): Json<GrepBody>,
) -> ApiResult<Json<GrepResponse>> {
    let key = caller.session(body.tenant_id, body.session_id)?;
    within("max_matches", body.max_matches, 1, MAX_RESULTS)?;
    within("before", body.before, 0, MAX_CONTEXT_LINES)?;
    within("after", body.after, 0, MAX_CONTEXT_LINES)?;
    let counted = matches!(body.output, GrepOutput::Count);
    let request = guest::GrepRequest {
        pattern: body.pattern,
        path: body.path,
        glob: body.glob.unwrap_or_default(),
        ignore_case: body.ignore_case,
        literal: body.literal,
        multiline: body.multiline,
        before: body.before,
        after: body.after,
        max_matches: body.max_matches,
        output: match body.output {
            GrepOutput::Matches => guest::GrepOutput::GREP_OUTPUT_MATCHES,
            GrepOutput::Files => guest::GrepOutput::GREP_OUTPUT_FILES,
            GrepOutput::Count => guest::GrepOutput::GREP_OUTPUT_COUNT,
        }
        .into(),
        hidden: body.hidden,
        no_ignore: body.no_ignore,
        timeout_ms: TIME_LIMIT.as_millis() as u32,
        max_bytes: MAX_TEXT_BYTES,
        ..Default::default()
    };
    let found = state
        .sessions
        .with_guest(&key, |guest| async move { guest.grep(request).await })
        .await?;
    Ok(Json(GrepResponse {
        matches: found.matches.into_iter().map(GrepMatch::from).collect(),
        files: found
            .files
            .into_iter()
            .map(|file| GrepFile {
                path: file.path,
                count: counted.then_some(file.count),
            })
            .collect(),
        truncated: found.truncated,
        timed_out: found.timed_out,
    }))
}

impl From<guest::GrepMatch> for GrepMatch {
    fn from(found: guest::GrepMatch) -> Self {
        Self {
            path: found.path,
            line: found.line,
            column: found.column,
            text: found.text,
            before: found.before,
            after: found.after,
        }
    }
}

/// A glob to look for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GlobBody {
    #[schema(example = "**/*.py")]
    pattern: String,
    /// A directory, relative to the workspace, which is the default.
    #[serde(default = "workspace")]
    #[schema(default = workspace)]
    path: String,
    #[serde(default = "default_results")]
    #[schema(minimum = 1, maximum = 10000, default = default_results)]
    max_results: u32,
    /// Find hidden files too.
    #[serde(default)]
    hidden: bool,
    /// The token's tenant when it is absent.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    #[schema(value_type = String)]
    session_id: SessionId,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GlobResponse {
    /// Newest first.
    paths: Vec<String>,
    /// There are more than are shown.
    truncated: bool,
}

/// Find files by name
#[utoipa::path(
    post, path = "/glob", tag = "search",
    request_body = GlobBody,
    responses((status = 200, description = "What was found", body = GlobResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn glob(
    caller: Caller,
    State(state): State<AppState>,
    Json(body): Json<GlobBody>,
) -> ApiResult<Json<GlobResponse>> {
    let key = caller.session(body.tenant_id, body.session_id)?;
    within("max_results", body.max_results, 1, MAX_RESULTS)?;
    let request = guest::GlobRequest {
        pattern: body.pattern,
        path: body.path,
        max_results: body.max_results,
        hidden: body.hidden,
        timeout_ms: TIME_LIMIT.as_millis() as u32,
        ..Default::default()
    };
    let found = state
        .sessions
        .with_guest(&key, |guest| async move { guest.glob(request).await })
        .await?;
    Ok(Json(GlobResponse {
        paths: found.paths,
        truncated: found.truncated,
    }))
}

fn within(field: &str, value: u32, least: u32, most: u32) -> ApiResult<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "`{field}` is not between {least} and {most}"
    )))
}
