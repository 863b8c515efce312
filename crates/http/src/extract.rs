//! Extractors whose refusals are problems too, and name what is wrong.

mod strict;

use std::time::Duration;

use axum::{
    extract::{FromRequest, FromRequestParts, Path, Request},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{HeaderMap, header, request::Parts};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use sandbox_core::{ErrorCode, ExecutionId, SessionId, TenantId};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    AppState,
    problem::{ApiError, ApiResult},
};

/// Longest part of a parser's message that is shown; it may quote the request.
const MAX_MESSAGE_CHARS: usize = 300;

/// A body of JSON, either way.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl<T: DeserializeOwned> FromRequest<AppState> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> ApiResult<Self> {
        if !is_json(request.headers()) {
            return Err(ApiError::new(
                ErrorCode::UnsupportedMediaType,
                "the body must be JSON, with `Content-Type: application/json`",
            ));
        }
        if !is_plain(request.headers()) {
            return Err(ApiError::new(
                ErrorCode::UnsupportedMediaType,
                "the body must not be compressed: no `Content-Encoding` is taken",
            ));
        }
        let settings = &state.settings;
        let body = read(request, settings.max_body_bytes, settings.body_timeout).await?;
        parse(&body).map(Json)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
    else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn is_plain(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

async fn read(request: Request, limit: usize, time: Duration) -> ApiResult<Bytes> {
    let too_large = || {
        ApiError::new(
            ErrorCode::BodyTooLarge,
            format!("the body is larger than {limit} bytes"),
        )
    };
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    match tokio::time::timeout(time, Limited::new(request.into_body(), limit).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(ApiError::invalid("the body ended before its time")),
        Err(_) => Err(ApiError::new(
            ErrorCode::RequestTimeout,
            format!("the body did not arrive within {} s", time.as_secs()),
        )),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> ApiResult<T> {
    // Without this, an array of the fields' values in their order would do.
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(ApiError::invalid("the body is not a JSON object"));
    }
    strict::check(body).map_err(|error| match error.is_data() {
        true => refused("the body is not taken", &error),
        false => refused("the body is not valid JSON", &error),
    })?;
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        match (error.is_data(), path.as_str()) {
            (true, "." | "") => refused("the body is not as this route takes it", &error),
            (true, path) => refused(&format!("`{path}` is not as this route takes it"), &error),
            (false, _) => refused("the body is not valid JSON", &error),
        }
    })?;
    json.end()
        .map_err(|error| refused("the body is not valid JSON", &error))?;
    Ok(value)
}

fn refused(what: &str, error: &serde_json::Error) -> ApiError {
    ApiError::invalid(format!("{}: {}", cut(what), cut(&error.to_string())))
}

/// Keeps the end, for that is where line and column are.
fn cut(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= MAX_MESSAGE_CHARS {
        return text.to_owned();
    }
    let half = MAX_MESSAGE_CHARS / 2;
    let head: String = chars[..half].iter().collect();
    let tail: String = chars[chars.len() - half..].iter().collect();
    format!("{head}…{tail}")
}

/// A query string; unknown keys are refused where the type says so.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<AppState> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> ApiResult<Self> {
        axum::extract::Query::from_request_parts(parts, state)
            .await
            .map(|query| Self(query.0))
            .map_err(|rejection| ApiError::invalid(cut(&rejection.body_text())))
    }
}

/// `{tenant_id}/{session_id}` of a path.
pub(crate) struct SessionPath {
    pub(crate) tenant: TenantId,
    pub(crate) session: SessionId,
}

impl FromRequestParts<AppState> for SessionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> ApiResult<Self> {
        let Path((tenant, session)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| ApiError::invalid(cut(&rejection.body_text())))?;
        Ok(Self {
            tenant: tenant.parse()?,
            session: session.parse()?,
        })
    }
}

/// `{execution_id}` of a path.
pub(crate) struct ExecutionPath(pub(crate) ExecutionId);

impl FromRequestParts<AppState> for ExecutionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> ApiResult<Self> {
        Ok(Self(one_part(parts, state).await?.parse()?))
    }
}

/// `{artifact_id}` of a path: a UUID.
pub(crate) struct ArtifactPath(pub(crate) String);

impl FromRequestParts<AppState> for ArtifactPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> ApiResult<Self> {
        Ok(Self(uuid_part(parts, state, "artifact").await?))
    }
}

/// `{process_id}` of a path: a UUID.
pub(crate) struct ProcessPath(pub(crate) String);

impl FromRequestParts<AppState> for ProcessPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> ApiResult<Self> {
        Ok(Self(uuid_part(parts, state, "process").await?))
    }
}

async fn uuid_part(parts: &mut Parts, state: &AppState, of: &str) -> ApiResult<String> {
    let text = one_part(parts, state).await?;
    let id: uuid::Uuid = text
        .parse()
        .map_err(|_| ApiError::invalid(format!("the {of}'s id is not a UUID")))?;
    Ok(id.to_string())
}

async fn one_part(parts: &mut Parts, state: &AppState) -> ApiResult<String> {
    Path::<String>::from_request_parts(parts, state)
        .await
        .map(|Path(text)| text)
        .map_err(|rejection| ApiError::invalid(cut(&rejection.body_text())))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[expect(dead_code, reason = "only its name and type matter")]
        count: u32,
    }

    fn detail(text: &str) -> String {
        let response = parse::<Body>(text.as_bytes()).unwrap_err().into_response();
        response
            .extensions()
            .get::<std::sync::Arc<sandbox_core::Error>>()
            .unwrap()
            .detail()
            .to_owned()
    }

    #[test]
    fn a_refusal_names_the_field_and_the_place() {
        assert_eq!(
            detail(r#"{"count": "x"}"#),
            "`count` is not as this route takes it: invalid type: string \"x\", expected u32 at line 1 column 13"
        );
        assert_eq!(
            detail(r#"{"count": 1, "extra": 2}"#),
            "`extra` is not as this route takes it: unknown field `extra`, expected `count` at line 1 column 20"
        );
        assert_eq!(
            detail("{}"),
            "the body is not as this route takes it: missing field `count` at line 1 column 2"
        );
        assert_eq!(
            detail("{\n\"count\":"),
            "the body is not valid JSON: EOF while parsing a value at line 2 column 8"
        );
        assert_eq!(
            detail(r#"{"count":1} x"#),
            "the body is not valid JSON: trailing characters at line 1 column 13"
        );
        assert_eq!(
            detail(r#"{"count": 1, "count": 2}"#),
            "the body is not taken: a name is given twice: `count` at line 1 column 20"
        );
    }

    #[test]
    fn a_refusal_does_not_send_a_large_body_back() {
        let body = format!(r#"{{"count": "{}"}}"#, "x".repeat(1 << 20));
        let detail = detail(&body);
        assert!(detail.len() < 1000, "{}", detail.len());
        assert!(detail.ends_with("at line 1 column 1048588"), "{detail}");
    }
}
