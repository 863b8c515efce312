//! POST /read_binary: a file's bytes, streamed as fast as the client takes them.

use std::time::Duration;

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::{TryStreamExt as _, stream};
use guest_client::{
    FileStream,
    messages::{FileInfo, ReadBytesRequest},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sandbox_core::{Error, ErrorCode, Result, SessionId, TenantId};
use sandbox_session::Lease;
use serde::{Deserialize, Serialize};
use tracing::{Span, warn};
use utoipa::ToSchema;

use crate::{
    AppState,
    caller::Caller,
    extract::Json,
    files::range::{self, Range},
    problem::{ApiError, ApiResult, Problem},
};

/// How long the guest may take to open a file, and to send each part of it.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// Largest file that is sent as JSON, for it is in memory at once.
const MAX_JSON_BYTES: u64 = 32 << 20;

/// A file to send.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadBinaryBody {
    /// Relative to the workspace.
    path: String,
    /// The token's tenant when it is absent.
    #[schema(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    #[schema(value_type = String)]
    session_id: SessionId,
}

/// A file in JSON.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReadBinaryResponse {
    path: String,
    content_base64: String,
    size_bytes: u64,
    content_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
}

/// Read a file's bytes
///
/// One `Range` and `If-None-Match` are honoured. With `Accept: application/json` the
/// answer is JSON with base64, of files up to 32 MiB.
#[utoipa::path(
    post, path = "/read_binary", tag = "files",
    request_body = ReadBinaryBody,
    responses(
        (status = 200, description = "The file", content(
            (Vec<u8> = "application/octet-stream"),
            (ReadBinaryResponse = "application/json"),
        )),
        (status = 206, description = "The part that `Range` names", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "The client has this version"),
        (status = 416, response = Problem),
        (status = "default", response = Problem),
    ),
)]
pub(crate) async fn read_binary(
    caller: Caller,
    State(state): State<AppState>,
    headers: HeaderMap,
    Json(body): Json<ReadBinaryBody>,
) -> ApiResult<Response> {
    let key = caller.session(body.tenant_id, body.session_id)?;
    let lease = state.sessions.lease(&key).await?;
    if wants_json(&headers) {
        let file = open(&lease, &body.path, Range::All).await?;
        return Ok(Json(in_json(file).await?).into_response());
    }
    let mut range = Range::of(&headers);
    let mut file = open(&lease, &body.path, range).await?;
    let mut etag = etag(&file.info);
    if range != Range::All && !range::if_range(&headers, etag.as_deref()) {
        range = Range::All;
        file = open(&lease, &body.path, range).await?;
        etag = self::etag(&file.info);
    }
    let tag = etag
        .as_deref()
        .and_then(|etag| HeaderValue::from_str(etag).ok());
    let mut response = if etag.is_some_and(|etag| range::none_match(&headers, &etag)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        in_bytes(lease, file, range)
    };
    if let Some(tag) = tag {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

fn wants_json(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|kind| kind.split(';').next())
        .any(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

async fn open(lease: &Lease, path: &str, range: Range) -> ApiResult<FileStream> {
    let (offset, length, from_end) = match range {
        Range::All => (0, None, false),
        Range::From { first, last } => {
            let length = last.map(|last| (last - first).saturating_add(1));
            (first, length, false)
        }
        Range::Suffix(count) => (0, Some(count), true),
    };
    let request = ReadBytesRequest {
        path: path.to_owned(),
        offset,
        length,
        from_end,
        ..Default::default()
    };
    Ok(in_time(lease.call(lease.guest().read_bytes(request))).await?)
}

async fn in_time<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(CALL_LIMIT, call)
        .await
        .unwrap_or_else(|_| {
            Err(Error::new(
                ErrorCode::Timeout,
                "the sandbox did not answer in time",
            ))
        })
}

/// A tag comes from inside the sandbox: one that could leave its quotes is none.
fn etag(info: &FileInfo) -> Option<String> {
    let plain = |b: u8| b.is_ascii_graphic() && b != b'"';
    (!info.etag.is_empty() && info.etag.bytes().all(plain)).then(|| format!("\"{}\"", info.etag))
}

fn content_type(path: &str) -> mime_guess::Mime {
    mime_guess::from_path(path).first_or_octet_stream()
}

async fn in_json(mut file: FileStream) -> ApiResult<ReadBinaryResponse> {
    let too_large = || {
        ApiError::new(
            ErrorCode::TooLarge,
            format!("the file is larger than {MAX_JSON_BYTES} bytes; read it without JSON"),
        )
    };
    if file.info.size_bytes > MAX_JSON_BYTES {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(data) = in_time(file.next()).await? {
        // It may have grown since its size was taken.
        if (bytes.len() + data.len()) as u64 > MAX_JSON_BYTES {
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(ReadBinaryResponse {
        content_base64: STANDARD.encode(&bytes),
        size_bytes: bytes.len() as u64,
        content_type: content_type(&file.info.path).to_string(),
        etag: etag(&file.info),
        path: file.info.path,
    })
}

/// The session stays in use until the last byte is with the client.
fn in_bytes(lease: Lease, file: FileStream, range: Range) -> Response {
    let size = file.info.size_bytes;
    let slice = range.within(size);
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let (status, length) = match (range, slice) {
        (Range::All, slice) => (StatusCode::OK, slice.map_or(0, range::Slice::len)),
        (_, Some(slice)) => {
            let part = format!("bytes {}-{}/{size}", slice.first, slice.last);
            insert(&mut headers, header::CONTENT_RANGE, &part);
            (StatusCode::PARTIAL_CONTENT, slice.len())
        }
        (_, None) => {
            insert(
                &mut headers,
                header::CONTENT_RANGE,
                &format!("bytes */{size}"),
            );
            let problem = ApiError::new(
                ErrorCode::RangeNotSatisfiable,
                format!("the file has {size} bytes, and none in this range"),
            );
            return (headers, problem).into_response();
        }
    };
    let kind = content_type(&file.info.path);
    insert(&mut headers, header::CONTENT_TYPE, kind.as_ref());
    headers.insert(header::CONTENT_LENGTH, length.into());
    // What is in a sandbox must not act as a page of this service.
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; sandbox"),
    );
    let parts = stream::try_unfold((lease, file), |(lease, mut file)| async move {
        let data = in_time(file.next()).await?;
        Ok::<_, Error>(data.map(|data| (data, (lease, file))))
    });
    // The answer has begun: the client sees only that the connection breaks.
    let span = Span::current();
    let parts = parts.inspect_err(move |error| {
        span.in_scope(|| {
            warn!(
                error.code = error.code().as_str(),
                "failed to send a file to its end"
            )
        });
    });
    (status, headers, Body::from_stream(parts)).into_response()
}

fn insert(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_that_could_leave_its_quotes_is_none() {
        let tag = |text: &str| {
            etag(&FileInfo {
                etag: text.into(),
                ..Default::default()
            })
        };
        assert_eq!(tag("1-2-3").as_deref(), Some("\"1-2-3\""));
        for bad in ["", "a\"b", "a\nb", "a b", "ä"] {
            assert_eq!(tag(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_a_client_that_names_json_gets_json() {
        let accept = |value: &str| {
            wants_json(&HeaderMap::from_iter([(
                header::ACCEPT,
                value.parse().unwrap(),
            )]))
        };
        assert!(accept("text/html, application/json;q=0.9"));
        assert!(!accept("*/*"));
        assert!(!accept("application/octet-stream"));
    }
}
