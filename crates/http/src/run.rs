//! A run and its answer, shared by /execute and /bash: at its end, after a
//! while, or as a stream of events.

mod response;
pub(crate) mod stream;

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sandbox_core::{Error, ErrorCode, ExecutionId, SessionId, SessionKey, TenantId};
use sandbox_execution::{Attachment, Execution, ExecutionRequest, Finished};

pub(crate) use response::{
    ArtifactResponse, LimitsResponse, RaisedResponse, RunResponse, RunningResponse, run_response,
};

use crate::{
    AppState,
    extract::Json,
    input,
    problem::{ApiError, ApiResult},
    sse,
};

const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Longer than a gateway usually waits is of no use.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// How a client wants the answer of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answer {
    AtItsEnd,
    /// At its end, or after this long.
    Within(Duration),
    AsStream,
}

/// What a request says of its answer and of the run's name.
pub(crate) struct Wish {
    pub(crate) stream: Option<bool>,
    pub(crate) wait_seconds: Option<f64>,
    pub(crate) execution_id: Option<ExecutionId>,
}

impl Wish {
    pub(crate) fn answer(&self, headers: &HeaderMap) -> ApiResult<Answer> {
        let stream = self.stream.unwrap_or_else(|| sse::accepted(headers));
        match (stream, wait(self.wait_seconds)?) {
            (true, None) => Ok(Answer::AsStream),
            (true, Some(_)) => Err(ApiError::invalid("a stream does not take `wait_seconds`")),
            (false, Some(wait)) => Ok(Answer::Within(wait)),
            (false, None) => Ok(Answer::AtItsEnd),
        }
    }

    /// The name that the caller chose, in the body or in a header.
    pub(crate) fn execution(&self, headers: &HeaderMap) -> ApiResult<Option<ExecutionId>> {
        let key = match headers.get(IDEMPOTENCY_KEY) {
            None => None,
            Some(value) => {
                let key = value.to_str().ok().and_then(|text| text.parse().ok());
                Some(key.ok_or_else(|| {
                    ApiError::invalid(
                        "`Idempotency-Key` is not 1 to 128 of [A-Za-z0-9._-], beginning with \
                         a letter, a digit or `_`",
                    )
                })?)
            }
        };
        match (&self.execution_id, key) {
            (Some(id), Some(key)) if *id != key => Err(ApiError::invalid(
                "`execution_id` and `Idempotency-Key` are not the same",
            )),
            (id, key) => Ok(id.clone().or(key)),
        }
    }
}

/// How long a run may take: as it says, or as its session does, or as is usual.
pub(crate) fn timeout(
    state: &AppState,
    tenant: &TenantId,
    session: Option<&SessionId>,
    seconds: Option<f64>,
) -> ApiResult<Duration> {
    let chosen = match (seconds, session) {
        (None, Some(session)) => {
            let key = SessionKey::new(tenant.clone(), session.clone());
            state.sessions.run_timeout(&key)
        }
        _ => None,
    };
    match chosen {
        // It is kept for as long as the session; the operator may have lowered the ceiling.
        Some(chosen) => Ok(chosen.min(state.settings.max_timeout)),
        None => input::timeout(seconds, &state.settings),
    }
}

/// How long to wait for an outcome.
pub(crate) fn wait(seconds: Option<f64>) -> ApiResult<Option<Duration>> {
    let Some(seconds) = seconds else {
        return Ok(None);
    };
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|wait| *wait <= MAX_WAIT)
        .map(Some)
        .ok_or_else(|| {
            let most = MAX_WAIT.as_secs();
            ApiError::invalid(format!("`wait_seconds` is not between 0 and {most}"))
        })
}

/// Runs it, and answers as it was wished. Without `detach`, a client that goes
/// away takes the run with it.
pub(crate) async fn answer(
    state: &AppState,
    answer: Answer,
    mut request: ExecutionRequest,
) -> ApiResult<Response> {
    // Whoever comes back for it later does not hold the connection meanwhile.
    request.detach |= matches!(answer, Answer::Within(_));
    request.run.live = answer != Answer::AtItsEnd || request.detach;
    let attachment = state.executions.start(request)?;
    match answer {
        Answer::AsStream => {
            attachment
                .started()
                .await
                .map_err(|error| name_language(error, &attachment))?;
            Ok(stream::events(attachment, 0))
        }
        Answer::AtItsEnd => {
            let finished = attachment.finished().await;
            outcome(&attachment, &finished)
        }
        Answer::Within(wait) => at_most(attachment, wait).await,
    }
}

/// The outcome if the run ends in time, else what it has come to so far.
pub(crate) async fn at_most(attachment: Attachment, wait: Duration) -> ApiResult<Response> {
    match tokio::time::timeout(wait, attachment.finished()).await {
        Ok(finished) => outcome(&attachment, &finished),
        Err(_) => Ok(running(&attachment)),
    }
}

fn outcome(execution: &Execution, finished: &Finished) -> ApiResult<Response> {
    match &finished.result {
        Ok(report) => Ok(Json(run_response(execution, report, finished)).into_response()),
        Err(error) => Err(name_language(error.clone(), execution).into()),
    }
}

fn running(execution: &Execution) -> Response {
    let mut answer = (
        StatusCode::ACCEPTED,
        Json(RunningResponse::new(execution, execution.snapshot())),
    )
        .into_response();
    // Relative to /execute and /bash, wherever a gateway has put them.
    if let Ok(place) = HeaderValue::from_str(&format!("executions/{}", execution.id())) {
        answer.headers_mut().insert(header::LOCATION, place);
    }
    answer
}

/// The guest knows the program that is missing, not the language that needs it.
pub(crate) fn name_language(error: Error, execution: &Execution) -> Error {
    if error.code() != ErrorCode::NotInstalled {
        return error;
    }
    Error::new(ErrorCode::NotInstalled, execution.missing()).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(stream: Option<bool>, wait_seconds: Option<f64>) -> Wish {
        Wish {
            stream,
            wait_seconds,
            execution_id: Some("a".parse().unwrap()),
        }
    }

    #[test]
    fn the_body_or_the_accept_header_asks_for_a_stream() {
        let none = HeaderMap::new();
        let sse = HeaderMap::from_iter([(
            header::ACCEPT,
            HeaderValue::from_static("text/event-stream"),
        )]);
        let answer = |wish: Wish, headers| wish.answer(headers).unwrap();
        assert_eq!(answer(wish(None, None), &none), Answer::AtItsEnd);
        assert_eq!(answer(wish(None, None), &sse), Answer::AsStream);
        assert_eq!(answer(wish(Some(true), None), &none), Answer::AsStream);
        assert_eq!(answer(wish(Some(false), None), &sse), Answer::AtItsEnd);
        let wait = Duration::from_millis(1500);
        assert_eq!(answer(wish(None, Some(1.5)), &none), Answer::Within(wait));
        assert!(wish(Some(true), Some(1.0)).answer(&none).is_err());
        for bad in [-1.0, 3601.0, f64::NAN, f64::INFINITY, 1e308] {
            assert!(wish(None, Some(bad)).answer(&none).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_is_in_the_body_or_in_the_header_but_never_two() {
        let key = |text: &'static str| {
            HeaderMap::from_iter([(
                header::HeaderName::from_static(IDEMPOTENCY_KEY),
                HeaderValue::from_static(text),
            )])
        };
        let named = wish(None, None);
        assert_eq!(named.execution(&key("a")).unwrap().unwrap().as_str(), "a");
        assert!(named.execution(&key("b")).is_err());
        let unnamed = Wish {
            execution_id: None,
            ..named
        };
        assert_eq!(unnamed.execution(&HeaderMap::new()).unwrap(), None);
        for bad in ["", "a b", "../x", "-x"] {
            assert!(unnamed.execution(&key(bad)).is_err(), "{bad:?}");
        }
    }
}
